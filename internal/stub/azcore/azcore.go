// Package azcore is a stub for the package of this name, with which Prometheus signs remote writes with
// an identity of Azure.
package azcore

import (
	"context"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// AccessToken is what a [TokenCredential] would get.
type AccessToken struct {
	Token     string
	ExpiresOn time.Time
	RefreshOn time.Time
}

// TokenCredential gets tokens.
type TokenCredential interface {
	GetToken(context.Context, policy.TokenRequestOptions) (AccessToken, error)
}

// ClientOptions choose a cloud.
type ClientOptions struct{ Cloud cloud.Configuration }
