module github.com/pb33f/libopenapi

go 1.26.0
