"""Maennel et al. 2020, What do neural networks learn when trained with random labels?"""
