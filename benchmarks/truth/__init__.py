"""Planted faults with known answers: does ampcore name what is wrong?"""
