module github.com/Azure/azure-sdk-for-go/sdk/azidentity

go 1.26.0

require github.com/Azure/azure-sdk-for-go/sdk/azcore v1.23.1
