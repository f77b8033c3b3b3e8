// Package azidentity is a stub for the identities of Azure with which Prometheus signs remote writes:
// there is none here.
package azidentity

import (
	"crypto"
	"crypto/x509"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// ErrNotBuilt is the error of everything here.
var ErrNotBuilt = errors.New("azure: identities of Azure are not built into this program")

// ClientID names a managed identity.
type ClientID string

// The options of each kind of identity.
type (
	ClientCertificateCredentialOptions struct {
		azcore.ClientOptions
		SendCertificateChain bool
	}
	ClientSecretCredentialOptions struct{ azcore.ClientOptions }
	DefaultAzureCredentialOptions struct {
		azcore.ClientOptions
		TenantID string
	}
	ManagedIdentityCredentialOptions struct {
		azcore.ClientOptions
		ID ClientID
	}
	WorkloadIdentityCredentialOptions struct {
		azcore.ClientOptions
		ClientID, TenantID, TokenFilePath string
	}
)

// NewClientCertificateCredential returns ErrNotBuilt.
func NewClientCertificateCredential(_, _ string, _ []*x509.Certificate, _ crypto.PrivateKey, _ *ClientCertificateCredentialOptions) (azcore.TokenCredential, error) {
	return nil, ErrNotBuilt
}

// NewClientSecretCredential returns ErrNotBuilt.
func NewClientSecretCredential(_, _, _ string, _ *ClientSecretCredentialOptions) (azcore.TokenCredential, error) {
	return nil, ErrNotBuilt
}

// NewDefaultAzureCredential returns ErrNotBuilt.
func NewDefaultAzureCredential(*DefaultAzureCredentialOptions) (azcore.TokenCredential, error) {
	return nil, ErrNotBuilt
}

// NewManagedIdentityCredential returns ErrNotBuilt.
func NewManagedIdentityCredential(*ManagedIdentityCredentialOptions) (azcore.TokenCredential, error) {
	return nil, ErrNotBuilt
}

// NewWorkloadIdentityCredential returns ErrNotBuilt.
func NewWorkloadIdentityCredential(*WorkloadIdentityCredentialOptions) (azcore.TokenCredential, error) {
	return nil, ErrNotBuilt
}

// ParseCertificates returns ErrNotBuilt.
func ParseCertificates(_, _ []byte) ([]*x509.Certificate, crypto.PrivateKey, error) {
	return nil, nil, ErrNotBuilt
}
