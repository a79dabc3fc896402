"""The crew's definition: the model, conditions, reading YAML and JSON, validation, the schema."""
