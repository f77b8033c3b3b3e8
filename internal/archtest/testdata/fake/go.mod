module reckon

go 1.26.0
