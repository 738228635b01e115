"""Who holds what grows: the cells that `leak` measures, and the remedies that fit what it found.

How much and who is `judging.leak`'s; printing is `terminal.leaks`'s."""
