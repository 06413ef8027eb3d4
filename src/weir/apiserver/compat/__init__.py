"""What stands for compatibility: flow control, encryption at rest, aggregation, audit, webhooks, custom resources."""
