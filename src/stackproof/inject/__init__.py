"""INJECT: whether a program would work with another MPI, decided from files alone.

Nothing is run. The loader's model says what would be loaded with and without the replacement; the
findings compare both; the judgement names the way to do it and every reason with its evidence.
"""
