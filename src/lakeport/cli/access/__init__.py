"""Who may call a server: settings of identities and policies, and what they become."""
