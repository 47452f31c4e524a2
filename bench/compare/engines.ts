import { bullmq } from './engines/bullmq.ts'
import { dbos } from './engines/dbos.ts'
import { graphileWorker } from './engines/graphile-worker.ts'
import { pgBoss } from './engines/pg-boss.ts'
import { sluicePostgres, sluiceSqlite } from './engines/sluice.ts'
import { type Engine } from './engine.ts'

/** Every engine by its name. */
export const ENGINES: Readonly<Record<string, Engine>> = {
  'sluice-sqlite': sluiceSqlite,
  'sluice-pg': sluicePostgres,
  bullmq,
  'pg-boss': pgBoss,
  graphile: graphileWorker,
  dbos,
}

/** Returns the engine of a name. It throws if there is none. */
export function engineOf(name: string): Engine {
  const engine = ENGINES[name]
  if (!engine) throw new Error(`there is no engine ${name}; there are ${Object.keys(ENGINES).join(', ')}`)
  return engine
}
