module github.com/go-openapi/validate

go 1.26

require (
	github.com/go-openapi/errors v0.22.8
	github.com/go-openapi/strfmt v0.27.2
)
