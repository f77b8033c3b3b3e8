package auth

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"reckon/access"
)

//go:embed login.html
var loginPage string

var loginTemplate = template.Must(template.New("login").Parse(loginPage))

// Handler serves the paths below /auth/: sign-in (login), sign-out (logout), the current viewer
// (me), and the OpenID Connect flow.
func (a *Authenticator) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth/login", func(w http.ResponseWriter, r *http.Request) { a.serveForm(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /auth/login", a.handleLogin)
	mux.HandleFunc("POST /auth/logout", a.handleLogout)
	mux.HandleFunc("GET /auth/me", a.serveViewer)
	if a.OIDC != nil {
		mux.HandleFunc("GET /auth/oidc", func(w http.ResponseWriter, r *http.Request) { a.OIDC.redirectToProvider(w, r, a) })
		mux.HandleFunc("GET /auth/callback", func(w http.ResponseWriter, r *http.Request) { a.OIDC.handleCallback(w, r, a) })
	}
	return http.NewCrossOriginProtection().Handler(mux)
}

// serveForm serves the sign-in form.
func (a *Authenticator) serveForm(w http.ResponseWriter, r *http.Request, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	provider := ""
	if a.OIDC != nil {
		provider = a.OIDC.Name
	}
	// An error means that the client went away.
	_ = loginTemplate.Execute(w, map[string]string{"Problem": problem, "Next": localRedirect(r.FormValue("next")), "Provider": provider,
		"Name": r.PostFormValue("name")})
}

// localRedirect restricts a redirect target to this server.
func localRedirect(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

func (a *Authenticator) handleLogin(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/x-www-form-urlencoded" {
		http.Error(w, "sign in with a form", http.StatusUnsupportedMediaType)
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, "cannot parse the form", http.StatusBadRequest)
		return
	}
	name := r.PostFormValue("name")
	v, err := a.Users.CheckPassword(r.Context(), name, r.PostFormValue("password"), a.senderAddress(r))
	switch {
	case errors.Is(err, ErrRefused):
		a.recordRefusal(r, name)
		a.serveForm(w, r, http.StatusUnauthorized, "The name or the password is wrong.")
		return
	case errors.Is(err, ErrSlow):
		a.serveForm(w, r, http.StatusTooManyRequests, "Too many failed attempts. Wait a little and try again.")
		return
	case err != nil:
		a.Logger.ErrorContext(r.Context(), "sign in", "err", err)
		a.serveForm(w, r, http.StatusInternalServerError, "Signing in does not work now. See the server log.")
		return
	}
	a.startSession(w, r, v, true, localRedirect(r.PostFormValue("next")))
}

// startSession starts a session and redirects the browser.
func (a *Authenticator) startSession(w http.ResponseWriter, r *http.Request, v access.Viewer, local bool, next string) {
	secret, err := a.Users.NewSession(r.Context(), v, local)
	if err != nil {
		a.Logger.ErrorContext(r.Context(), "begin a session", "err", err)
		a.serveForm(w, r, http.StatusInternalServerError, "Signing in does not work now. See the server log.")
		return
	}
	a.recordAudit(r.Context(), v, "login", r)
	http.SetCookie(w, a.newCookie(r, cookieName, secret, int(lasts.Seconds()), http.SameSiteStrictMode))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (a *Authenticator) newCookie(r *http.Request, name, value string, seconds int, site http.SameSite) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: a.usesTLS(r), SameSite: site}
}

func (a *Authenticator) handleLogout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		if err := a.Users.EndSession(r.Context(), c.Value); err != nil {
			a.Logger.ErrorContext(r.Context(), "end a session", "err", err)
			http.Error(w, "the session could not be ended; see the server log", http.StatusInternalServerError)
			return
		}
	}
	http.SetCookie(w, a.newCookie(r, cookieName, "", -1, http.SameSiteStrictMode))
	http.Redirect(w, r, "/auth/login", http.StatusSeeOther)
}

// serveViewer returns the signed-in viewer, for the pages.
func (a *Authenticator) serveViewer(w http.ResponseWriter, r *http.Request) {
	v := access.From(r.Context())
	w.Header().Set("Content-Type", "application/json")
	own := v.Own()
	if own == nil {
		own = []string{}
	}
	out := map[string]any{"name": v.Name, "role": v.Role.String(), "owners": own}
	if v.Login != "" {
		out["login"] = v.Login
	}
	_ = json.NewEncoder(w).Encode(out) // an error means that the client went away
}

func (a *Authenticator) recordAudit(ctx context.Context, v access.Viewer, action string, r *http.Request) {
	if err := a.Users.Audit(ctx, v, action, "", "", a.senderAddress(r)); err != nil {
		a.Logger.ErrorContext(ctx, "write the audit log", "err", err)
	}
}

func equalConstantTime(a, b string) bool {
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
