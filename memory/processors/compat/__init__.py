"""Everything that makes a history fit another provider."""
