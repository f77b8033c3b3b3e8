module reckon/operator

go 1.26.0
