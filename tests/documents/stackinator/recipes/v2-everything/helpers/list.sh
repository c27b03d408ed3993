spack -C {{ env.config }} find
