package wire

// Me is the caller's identity according to the server.
type Me struct {
	Name   string   `json:"name"`
	Role   string   `json:"role"`
	Owners []string `json:"owners"`
}
