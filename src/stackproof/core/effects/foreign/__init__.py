"""What other people made, taken so that it never acts with this user's rights."""
