// A site as people write them with Go's standard library: sessions in a signed cookie, forms, an upload, assets, events.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var (
	data  = os.Getenv("DATA")
	notes = filepath.Join(data, "notes.json")
	page  = template.Must(template.New("page").Parse(
		`<!doctype html><title>{{.Title}}</title><link rel="stylesheet" href="/static/site.css"><h1>{{.Title}}</h1>` +
			`{{range .Notes}}<li>{{.}}</li>{{end}}{{.Text}}`))
)

type shown struct {
	Title, Text string
	Notes       []string
}

func show(w http.ResponseWriter, status int, what shown) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := page.Execute(w, what); err != nil {
		log.Print(err)
	}
}

func signed(user string) string {
	mac := hmac.New(sha256.New, []byte("not a secret"))
	mac.Write([]byte(user))
	return user + "." + hex.EncodeToString(mac.Sum(nil))
}

func user(r *http.Request) string {
	cookie, err := r.Cookie("site")
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(cookie.Value, ".")
	if cookie.Value != signed(name) {
		return ""
	}
	return name
}

func stored() []string {
	var all []string
	if text, err := os.ReadFile(notes); err == nil {
		_ = json.Unmarshal(text, &all)
	}
	return all
}

func index(w http.ResponseWriter, r *http.Request) {
	name := user(r)
	switch {
	case r.URL.Path != "/":
		http.NotFound(w, r)
	case name == "":
		http.Redirect(w, r, "/login", http.StatusSeeOther)
	default:
		show(w, 200, shown{Title: "Notes of " + name, Notes: stored()})
	}
}

func login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		show(w, 200, shown{Title: "Login"})
		return
	}
	if r.FormValue("password") != "opensesame" {
		show(w, http.StatusUnauthorized, shown{Title: "Login", Text: "Wrong."})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "site", Value: signed(r.FormValue("user")), Path: "/", HttpOnly: true})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, &http.Cookie{Name: "site", Path: "/", MaxAge: -1})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

func add(w http.ResponseWriter, r *http.Request) {
	text, _ := json.Marshal(append(stored(), r.FormValue("text")))
	if err := os.WriteFile(notes, text, 0o600); err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func upload(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("paper")
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	sum := sha256.New()
	size, _ := io.Copy(sum, file)
	respondJSON(w, 200, map[string]any{"name": header.Filename, "size": size, "sha256": hex.EncodeToString(sum.Sum(nil))})
}

func respondJSON(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(what)
}

func echoJSON(w http.ResponseWriter, r *http.Request) {
	var got any
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	respondJSON(w, 201, map[string]any{"got": got})
}

func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	for count := 1; count <= 3; count++ {
		fmt.Fprintf(w, "id: %d\ndata: tick %d\n\n", count, count)
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Millisecond)
	}
}

func main() {
	http.HandleFunc("/", index)
	http.HandleFunc("/login", login)
	http.HandleFunc("/logout", logout)
	http.HandleFunc("/notes", add)
	http.HandleFunc("/upload", upload)
	http.HandleFunc("/json", echoJSON)
	http.HandleFunc("/events", events)
	http.HandleFunc("/long", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("all work and no play\n", 5_000))
	})
	http.HandleFunc("/seen", func(w http.ResponseWriter, r *http.Request) {
		respondJSON(w, 200, map[string]any{"host": r.Host, "query": r.URL.Query()})
	})
	http.HandleFunc("/broken", func(http.ResponseWriter, *http.Request) { panic("broken on purpose") })
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, os.Getenv("ASSETS")+"/site.css") })
	http.Handle("/static/", http.StripPrefix("/static/", http.FileServer(http.Dir(os.Getenv("ASSETS")))))
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, nil))
}
