// A limiter over a backend of one's own: a table of SQLite that two limiters share. Run it with: npx node
// examples/own-backend.ts
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLimiter, limit, RateLimitRejected } from '../src/exports/limiter.ts'
import { valuesInSqlite } from './own-backend/values-in-sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'own-backend-'))
const file = join(folder, 'budgets.db')
const crm = limit('crm', '5/min burst 5')
const limiters = [1, 2].map(() => createLimiter({ backend: valuesInSqlite(file), limits: [crm] }))

let [granted, refused] = [0, 0]
for (let i = 0; i < 10; i++)
  await limiters[i % 2]?.acquire([crm.key('acme')], { wait: false }).then(
    () => granted++,
    (error: unknown) => {
      if (!(error instanceof RateLimitRejected)) throw error
      refused++
    },
  )
console.log(`Two limiters on one file: ${granted} of 10 calls granted, ${refused} refused`)

for (const limiter of limiters) await limiter.close()
rmSync(folder, { recursive: true })
