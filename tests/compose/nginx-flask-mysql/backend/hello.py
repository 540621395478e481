# hello
