"""From values to decisions: whom to invite, what to pay, who replaces whom."""
