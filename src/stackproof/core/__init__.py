"""What knows neither MPI nor image: errors, documents, commands, versions, numbers."""
