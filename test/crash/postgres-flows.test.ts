// Flows that several processes work on together, on PostgreSQL, where they are killed.
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { call, seededRandom } from '../../src/exports/index.ts'
import { onPostgres } from '../stores.ts'
import { Fleet, type Member, pause, until } from './fleet.ts'
import { stepTask } from './tasks.ts'

const KILLS = Number(process.env['FLOW_KILLS'] ?? 12)
const SEED = Number(process.env['FLOW_SEED'] ?? 3)
const WORKERS = 3
const ROUNDS = 4
const EACH = 4
const STEPS = 6
const JOBS = 12
const FAILS = -1

const postgres = await onPostgres('flows of several processes that are killed')

/** Triggers note in the tables each end of a flow and each start of a pending job, by any cause. */
const NOTES = `
  CREATE TABLE ends (flow uuid, state int);
  CREATE TABLE begun (job uuid);
  CREATE FUNCTION note_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('INSERT INTO %I.ends VALUES ($1, $2)', TG_TABLE_SCHEMA) USING NEW.id, NEW.state; RETURN NULL; END $$;
  CREATE FUNCTION note_begun() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('INSERT INTO %I.begun VALUES ($1)', TG_TABLE_SCHEMA) USING NEW.id; RETURN NULL; END $$;
  CREATE TRIGGER note_end AFTER UPDATE ON flows FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION note_end();
  CREATE TRIGGER note_begun AFTER UPDATE ON jobs FOR EACH ROW WHEN (OLD.state = 5 AND NEW.state <> 5) EXECUTE FUNCTION note_begun();`

test.skipIf(!postgres)(
  `${WORKERS} processes, one of which is killed ${KILLS} times: every flow ends once, every step has its time once, callbacks run, and nothing is lost`,
  async () => {
    const random = seededRandom(SEED)
    const store = postgres?.vacant() ?? ''
    const fleet = new Fleet(store)
    const step = stepTask()
    const engine = fleet.engine([step])
    const schema = new URL(store).searchParams.get('schema') ?? ''
    const client = new Client({ connectionString: store })
    await client.connect()
    onTestFinished(() => client.end())
    const later = () => call(step, Math.floor(random.next() * 20))
    const many = (count: number) => Array.from({ length: count }, later)
    const callbacks = { onSuccess: later(), onFailure: later(), onComplete: later() }
    const flows = new Map<string, (number | string)[]>()
    const startSome = async (): Promise<void> => {
      for (let i = 0; i < EACH; i++) {
        const chain = await engine.flows.start({ kind: 'chain', steps: many(STEPS) })
        flows.set(chain.id, ['completed', STEPS, 0, 0])
        const broken = [...many(2), call(step, FAILS), ...many(2)]
        const ends = await engine.flows.start({ kind: 'chain', steps: broken })
        flows.set(ends.id, ['failed', 2, 1, 2])
        const group = await engine.flows.start({ kind: 'group', jobs: many(JOBS) })
        flows.set(group.id, ['completed', JOBS, 0, 0])
        const batch = await engine.flows.start({ kind: 'batch', jobs: many(JOBS), callbacks })
        flows.set(batch.id, ['completed', JOBS, 0, 0])
        const failing = await engine.flows.start({ kind: 'batch', jobs: [call(step, FAILS), ...many(JOBS)], callbacks })
        flows.set(failing.id, ['failed', JOBS, 1, 0])
      }
    }
    // The first call makes the tables.
    expect(await engine.flows.list()).toEqual([])
    await client.query(`SET search_path = "${schema}"; ${NOTES}`)
    await startSome()
    const members: Member[] = Array.from({ length: WORKERS }, () => fleet.flowWorker())
    let interrupted = 0
    for (let kills = 1; kills <= KILLS; kills++) {
      const [victim] = members.splice(Math.floor(random.next() * members.length), 1)
      if (!victim) throw new RangeError('nobody is left')
      await until(`${victim.name} is at work`, () => victim.ready)
      await pause(random.next() * 60)
      await fleet.kill(victim)
      if ((await engine.jobs.list({ states: ['active'] })).length > 0) interrupted++
      members.push(fleet.flowWorker())
      if (kills % (KILLS / ROUNDS) === 0 && kills < KILLS) await startSome()
    }
    for (const id of flows.keys())
      await until(`the flow ${id} has ended`, async () => (await engine.flows.get(id))?.state !== 'running')
    const waits = ['available', 'active', 'retryable', 'pending', 'scheduled'] as const
    await until('no job waits', async () => (await engine.jobs.list({ states: waits })).length === 0)
    for (const member of members) await until(`${member.name} is at work`, () => member.ready)
    for (const member of members) await fleet.stop(member)

    expect(fleet.accidents).toEqual([])
    for (const [id, tally] of flows) {
      const flow = await engine.flows.get(id)
      expect([flow?.state, flow?.completed, flow?.discarded, flow?.cancelled]).toEqual(tally)
      for (const { state, result, flow: place } of await engine.flows.jobs(id)) {
        const called = place?.callback ?? 'complete'
        if (called !== 'complete') {
          expect(state).toBe((called === 'success') === (flow?.state === 'completed') ? 'completed' : 'cancelled')
        }
        if (state === 'completed')
          expect(result).toEqual({
            node: place?.node,
            handed: place?.callback ? flow?.total : flow?.kind === 'chain' ? place?.node : 0,
          })
      }
    }
    const ends = await client.query('SELECT flow, count(*)::int AS times FROM ends GROUP BY flow')
    expect(new Map(ends.rows.map(({ flow, times }) => [flow, times]))).toEqual(
      new Map([...flows.keys()].map((id) => [id, 1])),
    )
    const begun = await client.query('SELECT count(*)::int AS times, count(DISTINCT job)::int AS jobs FROM begun')
    // Of each five flows: all steps but the first of two chains, and the callbacks of two batches.
    const pending = ROUNDS * EACH * (STEPS - 1 + 4 + 2 * 3)
    expect(begun.rows).toEqual([{ times: pending, jobs: pending }])
    // Else the kills met no work.
    expect(interrupted).toBeGreaterThanOrEqual(KILLS / 4)
  },
  180_000,
)
