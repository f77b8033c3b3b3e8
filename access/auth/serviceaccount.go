package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"reckon/access"
)

// ClusterConfig lists the service accounts of a Kubernetes cluster that may sign in with projected
// tokens (https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken).
// Accounts are written NAMESPACE/NAME.
type ClusterConfig struct {
	// APIServer is the address of the API server that issues the tokens, by default the one of the server's own
	// cluster.
	APIServer string `yaml:"api_server"`
	// CAFile holds the authorities to verify the API server with, TokenFile the token sent to it. The defaults are
	// the files that every pod has.
	CAFile    string `yaml:"ca_file"`
	TokenFile string `yaml:"token_file"`
	// Audience is the required audience of tokens, by default reckon. Tokens for the API server are
	// thus never accepted here, and ours nowhere else.
	Audience string `yaml:"audience"`
	// Agents may send samples of the node that their token names, for Site (empty: any site).
	Agents []string `yaml:"agents"`
	Site   string   `yaml:"site"`
	// AnyNode trusts an agent to report its node name. It is for clusters before Kubernetes 1.30,
	// that put no node name into tokens.
	AnyNode bool `yaml:"any_node"`
	// Describers may write subgraphs of the knowledge graph and change their own: the operator, which describes the cluster.
	Describers []string `yaml:"describers"`
	// Admins and Supporters are accounts with that role.
	Admins     []string `yaml:"admins"`
	Supporters []string `yaml:"support"`
	// Runs are accounts that may list and store MetricSet runs of all namespaces and see nothing
	// else, such as the operator's.
	Runs []string `yaml:"runs"`
}

// accountFolder is the place where Kubernetes mounts the credentials of a pod for the API server.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount/"

// Cluster checks tokens of service accounts. It is safe for concurrent use.
type Cluster struct {
	ClusterConfig
	keys  *clusterKeys
	clock func() time.Time
}

// NewCluster checks the configuration c and returns a verifier of service account tokens. The API server is contacted
// when the first token arrives, so it may be unreachable now. host and port are the variables KUBERNETES_SERVICE_HOST
// and KUBERNETES_SERVICE_PORT, which every pod has.
func NewCluster(c ClusterConfig, host, port string, clock func() time.Time, log *slog.Logger) (*Cluster, error) {
	if c.APIServer == "" && host != "" {
		c.APIServer = "https://" + joinHostPort(host, cmp.Or(port, "443"))
	}
	c.CAFile, c.TokenFile = cmp.Or(c.CAFile, accountFolder+"ca.crt"), cmp.Or(c.TokenFile, accountFolder+"token")
	c.Audience = cmp.Or(c.Audience, "reckon")
	u, err := url.Parse(c.APIServer)
	switch {
	case c.APIServer == "":
		return nil, errors.New(
			"api_server: this is no pod of a cluster (KUBERNETES_SERVICE_HOST is not set); give the address of the API server")
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil:
		return nil, errors.New("api_server: write it like https://10.96.0.1:443")
	case len(c.Agents)+len(c.Admins)+len(c.Supporters)+len(c.Runs) == 0:
		return nil, errors.New("it lets no account in; name some under agents, admins, support or runs")
	}
	for _, a := range slices.Concat(c.Agents, c.Admins, c.Supporters, c.Runs) {
		if ns, name, ok := strings.Cut(a, "/"); !ok || ns == "" || name == "" || strings.ContainsAny(a, "* :") ||
			strings.Contains(name, "/") {
			return nil, fmt.Errorf("%q is no service account; write it NAMESPACE/NAME", a)
		}
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	keys, err := newClusterKeys(strings.TrimRight(c.APIServer, "/"), pem, c.TokenFile, clock, log)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %s: %w", c.CAFile, err)
	}
	return &Cluster{ClusterConfig: c, keys: keys, clock: clock}, nil
}

// signatureAlgorithms returns the algorithms that a cluster may sign tokens with.
func signatureAlgorithms() []string {
	return []string{string(jose.RS256), string(jose.RS384), string(jose.RS512), string(jose.ES256), string(jose.ES384), string(jose.ES512)}
}

// accountClaims are the claims of a token that Kubernetes adds.
type accountClaims struct {
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
		} `json:"serviceaccount"`
		Pod struct {
			Name string `json:"name"`
		} `json:"pod"`
		Node struct {
			Name string `json:"name"`
		} `json:"node"`
	} `json:"kubernetes.io"`
}

// isJWT distinguishes tokens of clusters from our own by their form.
func isJWT(text string) bool {
	return !strings.HasPrefix(text, tokenPrefix) && strings.Count(text, ".") == 2
}

// CheckToken returns the viewer that a service account token belongs to. It verifies the signature, issuer, audience
// and validity period, and looks up the rights of the account. It returns ErrToken for an invalid token, and ErrKeys if
// the keys to verify it are unavailable.
func (c *Cluster) CheckToken(ctx context.Context, text string) (access.Viewer, error) {
	if len(text) > 16<<10 {
		return access.Viewer{}, ErrToken
	}
	issuer, err := c.keys.clusterIssuer(ctx)
	if err != nil {
		return access.Viewer{}, err
	}
	set := &keySet{keys: c.keys}
	id, err := oidc.NewVerifier(issuer, set,
		&oidc.Config{ClientID: c.Audience, Now: c.clock, SupportedSigningAlgs: signatureAlgorithms()}).Verify(ctx, text)
	switch {
	case set.err != nil:
		return access.Viewer{}, set.err
	case err != nil:
		return access.Viewer{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	var claims accountClaims
	if err := id.Claims(&claims); err != nil {
		return access.Viewer{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return c.accountViewer(id.Subject, &claims)
}

// accountViewer returns the viewer of an account with its rights.
func (c *Cluster) accountViewer(subject string, claims *accountClaims) (access.Viewer, error) {
	k := &claims.Kubernetes
	account := k.Namespace + "/" + k.ServiceAccount.Name
	if subject != "system:serviceaccount:"+k.Namespace+":"+k.ServiceAccount.Name {
		return access.Viewer{}, fmt.Errorf("%w: its subject is no service account", ErrToken)
	}
	v := access.Viewer{Name: "service account " + account}
	switch {
	case slices.Contains(c.Admins, account):
		v.Role = access.Admin
		return v, nil
	case slices.Contains(c.Supporters, account):
		v.Role = access.Support
		return v, nil
	case slices.Contains(c.Describers, account) || slices.Contains(c.Runs, account):
		if slices.Contains(c.Describers, account) {
			v.Writes = &access.Scope{Site: c.Site, Nodes: []string{""}} // it sends subgraphs, and samples without a node
		}
		v.Runs = slices.Contains(c.Runs, account)
		return v, nil
	case !slices.Contains(c.Agents, account):
		return access.Viewer{}, fmt.Errorf("%w: the service account %s is not let in here", ErrToken, account)
	}
	v.Writes = &access.Scope{Site: c.Site}
	switch node := k.Node.Name; {
	case node != "" && !strings.ContainsAny(node, `*?[\/`): // a name, no pattern
		v.Name = "agent " + node
		v.Writes.Nodes = []string{node}
	case c.AnyNode && node == "":
		v.Name = "agent " + cmp.Or(k.Pod.Name, account)
	default:
		return access.Viewer{}, fmt.Errorf(
			"%w: it names no node (kubernetes.io.node.name, which Kubernetes 1.30 and later put there); on an older cluster set "+
				"any_node: true (serviceAccountTokens.anyNode=true in the chart)", ErrToken)
	}
	return v, nil
}
