/** Limits on Redis or Valkey, over a client of your own. Needs the package `redis` or `ioredis`. */
import '../base/supported-node.ts'
/** The Lua script that decides requests, for programs in other languages. */
export { ACQUIRE as ACQUIRE_SCRIPT } from '../limiter/redis/lua/embedded.ts'
export { redisBackend } from '../limiter/redis/create.ts'
export type { RedisClient } from '../limiter/redis/client.ts'
