import { describe, it } from 'vitest'
import { limiterSuite } from '../../../src/exports/testing/limiter-suite.ts'
import { StoreLimiter } from '../../../src/store/limiter/store-limiter.ts'
import { createManualClock } from '../../../src/testing/manual-clock.ts'
import { postgresBackend } from '../../store/postgres-backend.ts'
import { withPostgres } from '../../store/postgres-server.ts'
import { sqliteBackend } from '../../store/sqlite-backend.ts'
import type { StoreBackend } from '../store/backend.ts'

function suiteOf(of: StoreBackend): void {
  limiterSuite(
    of.name,
    async () => {
      const clock = createManualClock()
      const store = await of.open(clock)
      const detach = clock.attach?.({ pending: () => store.pending, running: () => 0 })
      const closed = async (): Promise<void> => {
        await store.close()
        detach?.()
      }
      const backend = new StoreLimiter({ store, clock, closed })
      return { backend, advance: (ms) => clock.advance(ms), close: () => backend.close() }
    },
    { describe, it },
  )
}

suiteOf(sqliteBackend('SQLite', ':memory:'))
withPostgres('limits on PostgreSQL', () => suiteOf(postgresBackend('PostgreSQL')))
