"""Image formats: how a store is packed, how a file tells what it is, what it says of its stack."""
