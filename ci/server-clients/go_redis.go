// go-redis against `ensile serve`. `go_redis PORT`
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const keys = 500

var ctx = context.Background()

func check(holds bool, format string, arguments ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, "go-redis: "+format+"\n", arguments...)
		os.Exit(1)
	}
}

func equal(name string, got, wanted any) {
	check(reflect.DeepEqual(got, wanted), "%s: %v, not %v", name, got, wanted)
}

func must[T any](value T, err error) T {
	check(err == nil, "%v", err)
	return value
}

func client(options redis.Options) *redis.Client {
	options.Addr = "127.0.0.1:" + os.Args[1]
	options.ContextTimeoutEnabled = true
	return redis.NewClient(&options)
}

func values(db *redis.Client) {
	equal("SET NX", must(db.SetNX(ctx, "s", "v", time.Minute).Result()), true)
	equal("SET NX again", must(db.SetNX(ctx, "s", "w", 0).Result()), false)
	equal("MGET", must(db.MGet(ctx, "s", "none").Result()), []any{"v", nil})
	_, err := db.Get(ctx, "none").Result()
	check(err == redis.Nil, "GET of an absent key: %v", err)
	equal("HSET", must(db.HSet(ctx, "h", "x", 1, "y", "z").Result()), int64(2))
	equal("HGETALL", must(db.HGetAll(ctx, "h").Result()), map[string]string{"x": "1", "y": "z"})
	must(db.ZAdd(ctx, "z", redis.Z{Score: 1, Member: "one"}, redis.Z{Score: 0.5, Member: "half"}).Result())
	equal("ZRANGE", must(db.ZRangeWithScores(ctx, "z", 0, -1).Result()),
		[]redis.Z{{Score: 0.5, Member: "half"}, {Score: 1, Member: "one"}})
	equal("ZRANK", must(db.ZRank(ctx, "z", "one").Result()), int64(1))
	must(db.SAdd(ctx, "set", "a").Result())
	equal("SMEMBERS", must(db.SMembersMap(ctx, "set").Result()), map[string]struct{}{"a": {}})
	equal("TTL", must(db.TTL(ctx, "h").Result()), time.Duration(-1))
	err = db.LPush(ctx, "s", 1).Err()
	check(err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"), "LPUSH to a string: %v", err)
}

func transactions(db *redis.Client) {
	pipe := db.Pipeline()
	set, sum, text := pipe.Set(ctx, "p", 5, 0), pipe.Incr(ctx, "p"), pipe.Get(ctx, "p")
	must(pipe.Exec(ctx))
	check(set.Val() == "OK" && sum.Val() == 6 && text.Val() == "6", "a pipeline")
	pipe = db.TxPipeline()
	first, failed, last := pipe.Incr(ctx, "p"), pipe.LPush(ctx, "p", 1), pipe.Incr(ctx, "p")
	_, err := pipe.Exec(ctx)
	check(err != nil && first.Val() == 7 && failed.Err() != nil && last.Val() == 8, "MULTI: %v", err)
	err = db.Watch(ctx, func(tx *redis.Tx) error {
		must(db.Incr(ctx, "p").Result())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "p", 0, 0).Err() })
		return err
	}, "p")
	check(errors.Is(err, redis.TxFailedErr), "EXEC after a change of a watched key: %v", err)
	// Clients that count by WATCH lose no step.
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for err := error(redis.TxFailedErr); err != nil; {
				err = db.Watch(ctx, func(tx *redis.Tx) error {
					number := must(tx.Get(ctx, "p").Int())
					_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						return pipe.Set(ctx, "p", number+1, 0).Err()
					})
					return err
				}, "p")
				check(err == nil || errors.Is(err, redis.TxFailedErr), "WATCH: %v", err)
			}
		})
	}
	all.Wait()
	equal("eight steps", must(db.Get(ctx, "p").Int()), 17)
}

func scripts(db *redis.Client) {
	add := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	equal("a script", must(add.Run(ctx, db, []string{"sc"}, 40).Int()), 40)
	must(db.ScriptFlush(ctx).Result())
	equal("a script after SCRIPT FLUSH", must(add.Run(ctx, db, []string{"sc"}, 2).Int()), 42)
	equal("EVAL", must(db.Eval(ctx, "return {1, 'two', false}", nil).Result()), []any{int64(1), "two", nil})
	equal("SCRIPT EXISTS", must(add.Exists(ctx, db).Result()), []bool{true})
}

func messages(db *redis.Client) {
	heard := db.Subscribe(ctx, "news")
	must(heard.Receive(ctx))
	check(heard.PSubscribe(ctx, "n*") == nil, "PSUBSCRIBE")
	must(heard.Receive(ctx))
	equal("PUBLISH", must(db.Publish(ctx, "news", "hello").Result()), int64(2))
	channel := heard.Channel()
	for range 2 {
		message := <-channel
		equal("a message", []string{message.Channel, message.Payload}, []string{"news", "hello"})
	}
	equal("CLIENT KILL of listeners", must(db.ClientKillByFilter(ctx, "TYPE", "pubsub").Result()), int64(1))
	for must(db.Publish(ctx, "news", "again").Result()) == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	equal("a message behind a new connection", (<-channel).Payload, "again")
	check(heard.Close() == nil, "the end of a listener")
}

func waits(db *redis.Client) {
	popped := make(chan []string)
	go func() { popped <- must(db.BLPop(ctx, 30*time.Second, "w1", "w2").Result()) }()
	for strings.Contains(must(db.Info(ctx, "clients").Result()), "blocked_clients:0") {
		time.Sleep(10 * time.Millisecond)
	}
	must(db.RPush(ctx, "w2", "x").Result())
	equal("BLPOP", <-popped, []string{"w2", "x"})
	err := db.BRPop(ctx, time.Second, "w1").Err()
	check(err == redis.Nil, "BRPOP without an item: %v", err)
	must(db.ZAdd(ctx, "wz", redis.Z{Score: 3, Member: "m"}).Result())
	equal("BZPOPMIN", *must(db.BZPopMin(ctx, time.Second, "wz").Result()),
		redis.ZWithKey{Z: redis.Z{Score: 3, Member: "m"}, Key: "wz"})
	until, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	err = db.BLPop(until, 0, "w1").Err()
	var late net.Error
	check(errors.As(err, &late) && late.Timeout(), "a wait that its client ends: %v", err)
}

func count(iterator *redis.ScanIterator) int {
	all := map[string]bool{}
	for iterator.Next(ctx) {
		all[iterator.Val()] = true
	}
	check(iterator.Err() == nil, "a scan: %v", iterator.Err())
	return len(all)
}

func scans(db *redis.Client) {
	pipe := db.Pipeline()
	for number := range keys {
		pipe.Set(ctx, fmt.Sprintf("scan:%d", number), number, 0)
		pipe.SAdd(ctx, "ss", number)
	}
	must(pipe.Exec(ctx))
	equal("SCAN", count(db.Scan(ctx, 0, "scan:*", 50).Iterator()), keys)
	equal("SSCAN", count(db.SScan(ctx, "ss", 0, "", 50).Iterator()), keys)
}

func operation(db *redis.Client) {
	commands := must(db.Command(ctx).Result())
	check(len(commands) > 200 && commands["get"].Arity == 2 && commands["set"].FirstKeyPos == 1, "COMMAND")
	check(must(db.ClientInfo(ctx).Result()).ID > 0, "CLIENT INFO")
	equal("CONFIG GET", must(db.ConfigGet(ctx, "appendonly").Result()), map[string]string{"appendonly": "yes"})
	check(must(db.InfoMap(ctx).Result())["Server"]["redis_version"] != "", "INFO")
	check(must(db.DBSize(ctx).Result()) > keys && must(db.Time(ctx).Result()).Unix() > 0, "DBSIZE, TIME")
	must(db.SlowLogGet(ctx, 10).Result())
}

func reconnects(protocol int) {
	db, other := client(redis.Options{Protocol: protocol, PoolSize: 1}), client(redis.Options{Protocol: protocol})
	number := must(db.ClientID(ctx).Result())
	equal("CLIENT KILL", must(other.ClientKillByFilter(ctx, "ID", fmt.Sprint(number)).Result()), int64(1))
	equal("a request behind CLIENT KILL", must(db.Set(ctx, "again", 1, 0).Result()), "OK")
	check(must(db.ClientID(ctx).Result()) != number, "the client has a new connection")
}

func main() {
	for _, protocol := range []int{2, 3} {
		db := client(redis.Options{Protocol: protocol, ClientName: "go", DB: protocol})
		must(db.FlushAll(ctx).Result())
		equal("CLIENT GETNAME", must(db.ClientGetName(ctx).Result()), "go")
		values(db)
		transactions(db)
		scripts(db)
		messages(db)
		waits(db)
		scans(db)
		operation(db)
		reconnects(protocol)
		must(db.FlushAll(ctx).Result())
	}
	fmt.Printf("go-redis %s: protocols 2 and 3\n", redis.Version())
}
