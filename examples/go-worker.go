// A worker in Go, with nothing but the standard library: go run go-worker.go http://127.0.0.1:8080 mail
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

type job struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Args    []any  `json:"args"`
	Attempt int    `json:"attempt"`
}

type body map[string]any

var (
	server, queue, token = os.Args[1], os.Args[2], os.Getenv("SLUICE_TOKEN")
	lease                = seconds("LEASE_S", 30)
	worker               = fmt.Sprintf("go-%d", os.Getpid())
	client               = &http.Client{Timeout: 30 * time.Second}
	handlers             = map[string]func(args []any) (any, error){
		"mail.send": func(args []any) (any, error) { return body{"sent": args[0]}, nil },
		"mail.slow": func(args []any) (any, error) {
			time.Sleep(time.Duration(args[0].(float64) * float64(time.Second)))
			return nil, nil
		},
	}
)

func seconds(name string, otherwise float64) time.Duration {
	if given, err := strconv.ParseFloat(os.Getenv(name), 64); err == nil {
		otherwise = given
	}
	return time.Duration(otherwise * float64(time.Second))
}

// post answers the status, or 0 where none came.
func post(path string, sent body, answer any) (int, error) {
	text, _ := json.Marshal(sent)
	request, _ := http.NewRequest("POST", server+"/ojs/v1/workers/"+path, bytes.NewReader(text))
	request.Header.Set("Content-Type", "application/openjobspec+json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return response.StatusCode, fmt.Errorf("%s was answered %s", path, response.Status)
	}
	return response.StatusCode, json.NewDecoder(response.Body).Decode(answer)
}

// persist says how a run ended until the server has heard it, or the lease is over: a server that restarts costs no finished work.
func persist(path string, sent body, until func() time.Time) {
	for pause := 200 * time.Millisecond; ; pause = min(pause*2, 5*time.Second) {
		status, err := post(path, sent, &body{})
		if err == nil {
			return
		}
		log.Print(err)
		passing := status == 0 || status == 401 || status == 408 || status == 429 || status >= 500
		if !passing || time.Now().Add(pause).After(until()) {
			return
		}
		time.Sleep(pause)
	}
}

func run(j job) {
	about := body{"job_id": j.ID, "worker_id": worker, "attempt": j.Attempt}
	ended, renewed := make(chan struct{}), make(chan time.Time, 1)
	renewed <- time.Now().Add(lease)
	go func() {
		beat := body{"worker_id": worker, "active_jobs": []string{j.ID}, "visibility_timeout_ms": lease.Milliseconds()}
		for ticker := time.NewTicker(lease / 3); ; {
			select {
			case <-ended:
				ticker.Stop()
				return
			case <-ticker.C:
				var told struct {
					Extended []string `json:"jobs_extended"`
				}
				if _, err := post("heartbeat", beat, &told); err == nil && len(told.Extended) > 0 {
					<-renewed
					renewed <- time.Now().Add(lease)
				}
			}
		}
	}()
	result, err := call(j)
	path := "ack"
	if err == nil {
		about["result"] = result
	} else {
		path, about["error"] = "nack", body{"code": "handler_error", "message": err.Error()}
	}
	persist(path, about, func() time.Time { at := <-renewed; renewed <- at; return at })
	close(ended)
}

func call(j job) (result any, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("%v", caught)
		}
	}()
	handler, known := handlers[j.Type]
	if !known {
		return nil, fmt.Errorf("no handler for %s", j.Type)
	}
	return handler(j.Args)
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func main() {
	// The job at hand ends, then the worker does.
	stopping, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	pause := 200 * time.Millisecond
	for stopping.Err() == nil {
		fetch := body{"queues": []string{queue}, "worker_id": worker, "wait": "PT5S", "visibility_timeout_ms": lease.Milliseconds()}
		var fetched struct{ Jobs []job }
		if _, err := post("fetch", fetch, &fetched); err != nil {
			log.Printf("%v; trying again", err)
			select {
			case <-stopping.Done():
			case <-time.After(pause):
			}
			pause = min(pause*2, 5*time.Second)
			continue
		}
		pause = 200 * time.Millisecond
		for _, each := range fetched.Jobs {
			run(each)
		}
	}
}
