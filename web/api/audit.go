package api

import (
	"errors"
	"net/http"
	"strings"

	"reckon/access"
	"reckon/web/client"
)

// requireSender admits only viewers who may send samples.
func requireSender(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v := access.From(r.Context()); !v.MaySend() && !v.Figures {
			reason := access.ErrForbidden
			if v.Role == access.Nobody {
				reason = access.ErrUnauthenticated
			}
			writeError(w, access.Refuse(reason, "send the token of an agent: `reckon token create --agent` makes one",
				errors.New("a sender of samples must identify itself")))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// recordAccess records that a viewer who may see everything looked at the work of another user. action and object
// describe the request, and owner is the other user. It omits requests for own work and requests of this process.
func (s *server) recordAccess(r *http.Request, action, object, owner string) {
	v := access.From(r.Context())
	if s.Audit == nil || !v.All() || v.Called() == "" && r.RemoteAddr == "" || (owner != "" && v.Called() == owner) {
		return
	}
	s.Audit(r, action, object, owner)
}

// recordListAccess records a list of workloads, with the owner if the filter names exactly one.
func (s *server) recordListAccess(r *http.Request, f client.Filter) {
	owner := ""
	if len(f.Owners) == 1 {
		owner = f.Owners[0]
	}
	s.recordAccess(r, "workloads", f.Query().Encode(), owner)
}

// auditQueries records queries for series of workloads.
func (s *server) auditQueries(h http.Handler) http.Handler {
	if s.Audit == nil {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if access.From(r.Context()).All() {
			// Read from the URL and, for forms, from the body, which is restored for the handler.
			if text := workloadQuery(r); text != "" {
				s.recordAccess(r, "query", text, "")
			}
		}
		h.ServeHTTP(w, r)
	})
}

// workloadQuery returns the PromQL query of a request if it is, or may be, about workloads. Otherwise it returns "",
// because the metrics of machines have no owner.
func workloadQuery(r *http.Request) string {
	if strings.HasSuffix(r.URL.Path, "/read") {
		return "remote read"
	}
	if err := r.ParseForm(); err != nil {
		return "" // the handler reports the error
	}
	text := r.Form.Get("query")
	if m := r.Form["match[]"]; text == "" && len(m) > 0 {
		text = strings.Join(m, " ")
	}
	for _, word := range []string{"workload", "owner", "command", "container", "kepler", "__name__", "user", "pod"} {
		if strings.Contains(text, word) {
			return text
		}
	}
	return ""
}
