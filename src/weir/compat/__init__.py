"""What stands for compatibility with Kubernetes, below the components: custom resources and admission policies."""
