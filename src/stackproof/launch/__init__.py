"""How ranks and batch jobs start: launchers of MPIs, and schedulers."""
