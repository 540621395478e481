print("waiting for jobs")
