"""Mutation tests: would a test notice if this line of the mission's core were wrong?"""
