package api

// securitySchemes returns the authentication methods of a client.
func securitySchemes() schema {
	return schema{
		"token": schema{"type": "http", "scheme": "bearer",
			"description": "A token that `reckon token create` made, or that of a service account of the cluster."},
		"password": schema{"type": "http", "scheme": "basic", "description": "The name and the password of a user."},
		"session": schema{"type": "apiKey", "in": "cookie", "name": "reckon_session",
			"description": "The cookie of a browser that signed in at /auth/login."},
	}
}

// otherRoute is an address that no route of this package serves.
type otherRoute struct {
	path, method, id, summary, tag string
	body                           string // media type of the request body
	status, says, media            string
}

// otherRoutes returns the addresses that the mux serves besides the routes.
func (s *server) otherRoutes() (out []otherRoute) {
	if s.Auth != nil {
		out = append(out,
			otherRoute{"/auth/login", "post", "login", "Sign in with a name and a password", "access", "application/x-www-form-urlencoded",
				"303", "A cookie, and the way on.", ""},
			otherRoute{"/auth/logout", "post", "logout", "End the session", "access", "", "303", "The way to the page to sign in.", ""},
			otherRoute{"/auth/me", "get", "me", "The caller and its role", "access", "", "200", "Name, role and owners of the viewer.",
				"application/json"})
	}
	if s.Prometheus != nil {
		out = append(out, otherRoute{"/api/v1/read", "post", "remote_read", "Prometheus remote read", "prometheus",
			"application/x-protobuf",
			"200", "The samples.", "application/x-protobuf"})
	}
	if s.Write != nil {
		out = append(out, otherRoute{"/api/v1/write", "post", "remote_write", "Prometheus remote write, 1.0 and 2.0", "prometheus",
			"application/x-protobuf", "204", "The samples are kept.", ""})
	}
	if s.OTLP != nil {
		out = append(out, otherRoute{"/api/v1/otlp/v1/metrics", "post", "otlp_metrics", "OpenTelemetry metrics over HTTP", "prometheus",
			"application/x-protobuf", "200", "Accepted and rejected records.", "application/x-protobuf"})
	}
	if s.Metrics != nil {
		out = append(out, otherRoute{"/metrics", "get", "metrics", "Metrics of this process", "prometheus", "", "200",
			"Prometheus text format.",
			"text/plain"})
	}
	return out
}

func (o otherRoute) document() schema {
	says := schema{"description": o.says}
	if o.media != "" {
		says["content"] = schema{o.media: schema{}}
	}
	op := schema{
		"operationId": o.id, "summary": o.summary, "tags": []string{o.tag},
		"responses": schema{o.status: says, "400": schema{"description": "The request body cannot be parsed."},
			"401": schema{"description": failDocs[401]}, "403": schema{"description": failDocs[403]}},
	}
	if o.body != "" {
		op["requestBody"] = schema{"content": schema{o.body: schema{}}}
	}
	return schema{o.method: op}
}
