// Budgets in another language, on Redis: a limiter here and a program in Python share one budget. It needs a Redis;
// SLUICE_TEST_REDIS names another than that of this machine. Run it with: npx node examples/budgets-on-redis.ts
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLimiter, limit } from '../src/exports/limiter.ts'
import { ACQUIRE_SCRIPT } from '../src/exports/redis.ts'

const redis = new URL(process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379')
const namespace = `example-${process.pid}`
const crm = limit('crm', { rate: 20, per: '1s', burst: 2 })
const limiter = createLimiter({ backend: redis.href, namespace, limits: [crm] })

// The policies live in Redis: other languages need names only.
await limiter.acquire([crm.key('acme')])

const folder = mkdtempSync(join(tmpdir(), 'sluice-example-'))
writeFileSync(join(folder, 'acquire.lua'), ACQUIRE_SCRIPT)
const script = fileURLToPath(new URL('budgets-on-redis.py', import.meta.url))
const args = [script, redis.hostname, redis.port || '6379', namespace, join(folder, 'acquire.lua'), 'crm', 'acme', '6']
const python = spawn('python3', args, { stdio: ['ignore', 'inherit', 'inherit'] })
const [[status], starts] = await Promise.all([
  once(python, 'exit') as Promise<[number]>,
  Promise.all(Array.from({ length: 4 }, () => limiter.acquire([crm.key('acme')]))),
])
console.log(`${starts.length} calls here, within the same budget`)

rmSync(folder, { recursive: true })
await limiter.close()
if (status !== 0) throw new Error(`python ended with ${status}`)
