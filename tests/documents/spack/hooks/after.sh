#!/bin/bash
echo {{ env.mount }}
