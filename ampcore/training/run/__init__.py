"""The Run: set-up, checkpoints, guard and recovery; `train_loop` has the order of a block."""
