# configuration
