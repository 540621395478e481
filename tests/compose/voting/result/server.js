// result
