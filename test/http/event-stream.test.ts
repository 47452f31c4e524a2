// A stream of events that goes on behind many missed ones.
import { describe, expect, test } from 'vitest'
import { Stream } from '../monitor/stream-reader.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness, type Json } from './http-harness.ts'

const KINDS = await everyStore('streams behind many events')

describe.each(KINDS)('on $name', (kind) => {
  test('a listener that returns gets all that it has missed, in order, and then live ones', async () => {
    const d = await HttpHarness.open({ engine: { store: kind.create() } })
    const push = async (tenant: string, n: number, queue = 'q'): Promise<string[]> => {
      const jobs = Array.from({ length: n }, () => ({ type: 'work', args: [1], options: { queue } }))
      const { body } = await d.post('/ojs/v1/jobs/batch', { jobs }, { headers: { 'X-OJS-Tenant': tenant } })
      return (body['jobs'] as Json[]).map(({ id }) => id as string)
    }
    const listen = (tenant: string, lastId: string): Promise<Stream> =>
      Stream.open((request) => d.app.fetch(request), '/ojs/v1/events/stream?channel=queue:q', {
        'X-OJS-Tenant': tenant,
        'Last-Event-ID': lastId,
      })
    const [acme, beta]: [string[], string[]] = [[], []]
    const idsOf = (stream: Stream): unknown[] => stream.of('job.enqueued').map((event) => (event as any).data.job_id) // oxlint-disable-line typescript/no-explicit-any
    for (let n = 0; n < 5; n++) {
      acme.push(...(await push('acme', 500)))
      beta.push(...(await push('beta', 200)))
      await push('acme', 10, 'other')
    }
    for (const [tenant, missed] of [
      ['acme', acme],
      ['beta', beta],
    ] as const) {
      const stream = await listen(tenant, '0')
      const live = await push(tenant, 3)
      await new Promise(setImmediate)
      expect([idsOf(stream), stream.ended]).toEqual([[...missed, ...live], false])
      const ids = [...stream.text.matchAll(/^id: (.*)$/gm)].map(([, id]) => Number(id))
      expect(ids).toEqual(ids.toSorted((a, b) => a - b))
      const again = await listen(tenant, String(ids[100]))
      expect(idsOf(again)).toEqual([...missed, ...live].slice(101))
    }
  })
})
