package auth

import (
	"context"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"

	"reckon/access"
)

// Front asks who sends a request, and lets people sign in and out.
type Front struct {
	Keeper *Keeper
	// Public shows what everybody may see to those who are not signed in.
	Public bool
	// OIDC signs people in by an OpenID Connect provider; nil: by password only.
	OIDC *Provider
	// Basic are users of the web configuration (name and bcrypt hash), which were checked
	// already when a request comes here: they are admin.
	Basic bool
	// Proxies are addresses of reverse proxies that speak TLS for us: they say by
	// X-Forwarded-Proto whether a cookie may be Secure.
	Logger *slog.Logger
}

const cookieName = "reckon_session"

// Viewer says who sends a request: by a bearer token, by name and password, or by the
// cookie of a session, in this order. What is sent and wrong is an error, never somebody
// with fewer rights.
func (f *Front) Viewer(r *http.Request) (access.Viewer, error) {
	ctx := r.Context()
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case strings.EqualFold(scheme, "Bearer"):
		v, err := f.Keeper.CheckToken(ctx, strings.TrimSpace(rest))
		return v, refused(err, "send a token that `reckon token list` shows as valid")
	case strings.EqualFold(scheme, "Basic"):
		name, password, ok := r.BasicAuth()
		if !ok {
			return access.Viewer{}, access.Refuse(http.StatusUnauthorized, "", errors.New("the name and the password are not sent in the form of RFC 7617"))
		}
		if f.Basic {
			return access.Viewer{Role: access.Admin, Name: name}, nil
		}
		v, err := f.Keeper.CheckPassword(ctx, name, password, source(r))
		return v, refused(err, "sign in with another name or password")
	case scheme != "":
		return access.Viewer{}, access.Refuse(http.StatusUnauthorized, "send Authorization: Bearer TOKEN", errors.New("the form of Authorization is not known"))
	}
	if c, err := r.Cookie(cookieName); err == nil {
		v, err := f.Keeper.CheckSession(ctx, c.Value)
		if err == nil {
			// A page of another site can make a browser send our cookie.
			if err := http.NewCrossOriginProtection().Check(r); err != nil {
				return access.Viewer{}, access.Refuse(http.StatusForbidden, "", errors.New("the request comes from a page of another site"))
			}
			return v, nil
		}
		if !errors.Is(err, ErrSession) {
			return access.Viewer{}, err
		}
	}
	if f.Public {
		return access.Viewer{Role: access.Public}, nil
	}
	return access.Viewer{}, nil
}

// refused gives errors of a check their status.
func refused(err error, hint string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrSlow):
		return access.Refuse(http.StatusTooManyRequests, "", err)
	case errors.Is(err, ErrToken), errors.Is(err, ErrRefused):
		return access.Refuse(http.StatusUnauthorized, hint, err)
	}
	return access.Refuse(http.StatusInternalServerError, "the log of the server says more", errors.New("the file of users could not be read"))
}

// source is the address of the sender, without its port.
func source(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

//go:embed login.html
var loginPage string

var loginTemplate = template.Must(template.New("login").Parse(loginPage))

// Handler serves what is below /auth/: the page to sign in (login), out (logout), who
// one is (me), and the way by OpenID Connect.
func (f *Front) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth/login", func(w http.ResponseWriter, r *http.Request) { f.page(w, r, http.StatusOK, "") })
	mux.HandleFunc("POST /auth/login", f.login)
	mux.HandleFunc("POST /auth/logout", f.logout)
	mux.HandleFunc("GET /auth/me", f.me)
	if f.OIDC != nil {
		mux.HandleFunc("GET /auth/oidc", f.OIDC.begin)
		mux.HandleFunc("GET /auth/callback", func(w http.ResponseWriter, r *http.Request) { f.OIDC.end(w, r, f) })
	}
	return http.NewCrossOriginProtection().Handler(mux)
}

// page is the form to sign in.
func (f *Front) page(w http.ResponseWriter, r *http.Request, status int, problem string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	provider := ""
	if f.OIDC != nil {
		provider = f.OIDC.Name
	}
	// The client went away: nothing left to say.
	_ = loginTemplate.Execute(w, map[string]string{"Problem": problem, "Next": inside(r.FormValue("next")), "Provider": provider, "Name": r.PostFormValue("name")})
}

// inside keeps a way back within this server.
func inside(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") {
		return "/"
	}
	return next
}

func (f *Front) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if media != "application/x-www-form-urlencoded" {
		http.Error(w, "sign in with a form", http.StatusUnsupportedMediaType)
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form can not be read", http.StatusBadRequest)
		return
	}
	name := r.PostFormValue("name")
	v, err := f.Keeper.CheckPassword(r.Context(), name, r.PostFormValue("password"), source(r))
	switch {
	case errors.Is(err, ErrRefused):
		f.audit(r.Context(), access.Viewer{Name: name}, "login refused", r)
		f.page(w, r, http.StatusUnauthorized, "The name or the password is wrong.")
		return
	case errors.Is(err, ErrSlow):
		f.page(w, r, http.StatusTooManyRequests, "Too many failed attempts. Wait a little and try again.")
		return
	case err != nil:
		f.Logger.ErrorContext(r.Context(), "sign in", "err", err)
		f.page(w, r, http.StatusInternalServerError, "Signing in does not work now. The log of the server says why.")
		return
	}
	f.admit(w, r, v, true, inside(r.PostFormValue("next")))
}

// admit begins a session and sends the browser on.
func (f *Front) admit(w http.ResponseWriter, r *http.Request, v access.Viewer, local bool, next string) {
	secret, err := f.Keeper.NewSession(r.Context(), v, local)
	if err != nil {
		f.Logger.ErrorContext(r.Context(), "begin a session", "err", err)
		f.page(w, r, http.StatusInternalServerError, "Signing in does not work now. The log of the server says why.")
		return
	}
	f.audit(r.Context(), v, "login", r)
	http.SetCookie(w, cookie(r, cookieName, secret, int(lasts.Seconds()), http.SameSiteStrictMode))
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func cookie(r *http.Request, name, value string, seconds int, site http.SameSite) *http.Cookie {
	return &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: r.TLS != nil, SameSite: site}
}

func (f *Front) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		if err := f.Keeper.EndSession(r.Context(), c.Value); err != nil {
			f.Logger.ErrorContext(r.Context(), "end a session", "err", err)
			http.Error(w, "the session could not be ended; the log of the server says why", http.StatusInternalServerError)
			return
		}
	}
	http.SetCookie(w, cookie(r, cookieName, "", -1, http.SameSiteStrictMode))
	http.Redirect(w, r, "/auth/login", http.StatusSeeOther)
}

// me says who is signed in, for the pages.
func (f *Front) me(w http.ResponseWriter, r *http.Request) {
	v := access.From(r.Context())
	w.Header().Set("Content-Type", "application/json")
	own := v.Own()
	if own == nil {
		own = []string{}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"name": v.Name, "role": v.Role.String(), "owners": own}) // the client went away: nothing left to say
}

func (f *Front) audit(ctx context.Context, v access.Viewer, action string, r *http.Request) {
	if err := f.Keeper.Audit(ctx, v, action, "", "", source(r)); err != nil {
		f.Logger.ErrorContext(ctx, "write the audit log", "err", err)
	}
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
