// go-redis against the hash table: pipelines, transactions, names, databases, retries. `go_redis PORT`
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

var ctx = context.Background()

func check(holds bool, format string, arguments ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, "go-redis: "+format+"\n", arguments...)
		os.Exit(1)
	}
}

func client(options redis.Options) *redis.Client {
	options.Addr = "127.0.0.1:" + os.Args[1]
	return redis.NewClient(&options)
}

func value(table *redis.Client, key string) string {
	text, err := table.Get(ctx, key).Result()
	if err == redis.Nil {
		return ""
	}
	check(err == nil, "GET %s: %v", key, err)
	return text
}

func transactions(table *redis.Client, name string) {
	key := "go:" + name
	pipe := table.TxPipeline()
	set, sum, text := pipe.Set(ctx, key, 5, 0), pipe.Incr(ctx, key), pipe.Get(ctx, key)
	_, err := pipe.Exec(ctx)
	check(err == nil, "%s: a transaction: %v", name, err)
	check(set.Val() == "OK" && sum.Val() == 6 && text.Val() == "6", "%s: a transaction replied otherwise", name)
	pipe = table.TxPipeline()
	pipe.Incr(ctx, key)
	pipe.Do(ctx, "NO.SUCH.COMMAND", key)
	pipe.Incr(ctx, key)
	_, err = pipe.Exec(ctx)
	check(err != nil, "%s: a transaction with an unknown command succeeded", name)
	check(value(table, key) == "6", "%s: a failed transaction was carried out (%v)", name, err)
	pipe = table.TxPipeline()
	pipe.Set(ctx, key+":text", "x", 0)
	failed, sum := pipe.Incr(ctx, key+":text"), pipe.Incr(ctx, key)
	_, err = pipe.Exec(ctx)
	check(err != nil && failed.Err() != nil && sum.Val() == 7, "%s: the others of a failed command", name)
	check(value(table, key) == "7", "%s: the others of a failed command", name)
}

func pipelines(table *redis.Client, name string) {
	key := "go:" + name + ":pipeline"
	pipe := table.Pipeline()
	first, second := pipe.Incr(ctx, key), pipe.Incr(ctx, key)
	_, err := pipe.Exec(ctx)
	check(err == nil && first.Val() == 1 && second.Val() == 2, "%s: a pipeline: %v", name, err)
	pipe = table.Pipeline()
	pipe.Incr(ctx, key)
	pipe.Do(ctx, "NO.SUCH.COMMAND", key)
	pipe.Incr(ctx, key)
	_, err = pipe.Exec(ctx)
	check(err != nil, "%s: a pipeline with an unknown command succeeded", name)
	check(value(table, key) == "4", "%s: each command of a pipeline once", name)
}

func refused(options redis.Options, name string) {
	options.MaxRetries, options.MinRetryBackoff, options.MaxRetryBackoff = 3, time.Millisecond, 10*time.Millisecond
	table := client(options)
	defer table.Close()
	err := table.Set(ctx, "go:other", 1, 0).Err()
	check(err != nil, "a SET with %s succeeded", name)
	for _, pipe := range []redis.Pipeliner{table.TxPipeline(), table.Pipeline()} {
		pipe.Set(ctx, "go:other", 1, 0)
		_, err = pipe.Exec(ctx)
		check(err != nil, "a pipeline with %s succeeded", name)
	}
	plain := client(redis.Options{})
	defer plain.Close()
	check(value(plain, "go:other") == "", "a command with %s was carried out (%v)", name, err)
}

func main() {
	retrying := redis.Options{MaxRetries: 5, MinRetryBackoff: time.Millisecond, MaxRetryBackoff: 10 * time.Millisecond}
	variants := []struct {
		name    string
		options redis.Options
	}{
		{"default", redis.Options{}},
		{"second protocol", redis.Options{Protocol: 2}},
		{"named", redis.Options{ClientName: "go"}},
		{"named, second protocol", redis.Options{ClientName: "go", Protocol: 2}},
		{"retrying", retrying},
	}
	for _, variant := range variants {
		table := client(variant.options)
		err := table.Ping(ctx).Err()
		check(err == nil, "%s: PING: %v", variant.name, err)
		pipelines(table, variant.name)
		transactions(table, variant.name)
		if variant.options.ClientName != "" {
			name, err := table.ClientGetName(ctx).Result()
			check(err == nil && name == "go", "%s: the name is not kept: %v", variant.name, err)
		}
		table.Close()
	}

	table := client(retrying)
	for range 5 {
		pipe := table.TxPipeline()
		pipe.Incr(ctx, "go:counted")
		pipe.Do(ctx, "NO.SUCH.COMMAND")
		_, err := pipe.Exec(ctx)
		check(err != nil, "a retried transaction succeeded")
	}
	check(value(table, "go:counted") == "", "a retried transaction was carried out")

	refused(redis.Options{DB: 1}, "database 1")
	refused(redis.Options{DB: 1, Protocol: 2}, "database 1, second protocol")
	refused(redis.Options{Password: "secret"}, "a password")
	refused(redis.Options{Password: "secret", Protocol: 2}, "a password, second protocol")

	err := table.Watch(ctx, func(*redis.Tx) error { return nil }, "go:watched")
	check(err != nil, "WATCH succeeded")
	table.Close()
	fmt.Printf("go-redis %s: %d kinds of clients\n", redis.Version(), len(variants))
}
