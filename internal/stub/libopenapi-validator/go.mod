module github.com/pb33f/libopenapi-validator

go 1.26.0
