// Package cloud is a stub for the names of Azure's clouds.
package cloud

// Configuration is a cloud.
type Configuration struct{}

// The clouds of Azure.
var AzureChina, AzureGovernment, AzurePublic Configuration
