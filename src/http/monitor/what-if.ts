import { z } from 'zod'
import type { Duration } from '../../base/duration.ts'
import type { LiveForecastOptions } from '../../engine/api/forecast.ts'
import type { Policy } from '../../policy/limits/policy.ts'
import type { Forecast } from '../../policy/forecast/what-if.ts'
import type { Operation } from '../operation.ts'
import { monitorOperation, Name } from './monitor-operation.ts'
import { onlyKey, storedLimit } from './seen.ts'

const Waits = z.object({ drainMs: z.number().nullable(), p50Ms: z.number().nullable(), p99Ms: z.number().nullable() })
const ForecastJson = Waits.extend({
  jobs: z.number(),
  keys: z.number(),
  doubled: Waits,
  exact: z.boolean(),
  caveats: z.array(z.string()),
})

/** Forecasts a limit's backlog under a changed policy. */
export const whatIf: Operation = monitorOperation({
  method: 'POST',
  path: '/limits/:name/what-if',
  name: 'monitorWhatIf',
  summary: 'Forecast how long the backlog of a limit takes, as it is and under another policy. It changes nothing.',
  params: z.object({ name: Name }),
  body: z
    .strictObject({
      policy: z.union([z.string().min(1).max(200), z.looseObject({})]).optional(),
      key: z.string().max(2048).optional(),
      backlog: z.int().min(0).max(1e9).optional(),
      runTime: z.string().min(1).max(64).optional(),
    })
    .optional(),
  answer: z.object({ now: ForecastJson, then: ForecastJson.nullable() }),
  async run(call) {
    const { sluice } = call.server
    const { policy, key, backlog, runTime } = call.body ?? {}
    const stored = storedLimit(call, call.params.name)
    const only = onlyKey(call, stored) ?? key
    const options: LiveForecastOptions = {
      ...(only !== undefined && { key: only }),
      ...(backlog !== undefined && { backlog }),
      ...(runTime !== undefined && { runTime: runTime as Duration }),
    }
    const now = await sluice.forecast(stored, options)
    const then =
      policy === undefined ? null : await sluice.forecast(stored, { ...options, policy: policy as unknown as Policy })
    return { now: forecastJson(now), then: then && forecastJson(then) }
  },
})

function forecastJson(forecast: Forecast): object {
  return { ...forecast, doubled: { ...forecast.doubled }, caveats: [...forecast.caveats] }
}
