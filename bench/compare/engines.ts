import { bullmqPostgres, bullmqRedis } from './engines/bullmq.ts'
import { graphileWorker } from './engines/graphile-worker.ts'
import { pgBoss } from './engines/pg-boss.ts'
import { sluice } from './engines/sluice.ts'
import { type Engine } from './engine.ts'

/** Every engine by its name on the command line. */
export const ENGINES: Readonly<Record<string, Engine>> = {
  sluice,
  'pg-boss': pgBoss,
  'graphile-worker': graphileWorker,
  'bullmq-redis': bullmqRedis,
  'bullmq-postgres': bullmqPostgres,
}

/** Returns the engine of a name. It throws if there is none. */
export function engineOf(name: string): Engine {
  const engine = ENGINES[name]
  if (!engine) throw new Error(`there is no engine ${name}; there are ${Object.keys(ENGINES).join(', ')}`)
  return engine
}
