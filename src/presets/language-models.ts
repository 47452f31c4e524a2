/** OpenAI, Anthropic and Gemini: the numbers depend on the account and the model, so that you pass your own. */
import { bucket, countedPreset, type CountedPreset, type PresetLimit, within } from './preset.ts'
import { page } from './sources.ts'

type Calibrated = Pick<PresetLimit['policy'], 'calibrate'>

/** The headers tell when the budget is full again. */
function full(budget: string): Calibrated {
  return { calibrate: { from: 'headers', budget, reset: 'refill' } }
}

/** OpenAI: requests and tokens a minute, as the page of your limits shows them. */
export const openai: CountedPreset<'requests' | 'tokens'> = countedPreset(
  {
    name: 'openai',
    title: 'OpenAI API',
    sources: [
      page('https://developers.openai.com/api/docs/guides/rate-limits/usage-tiers'),
      page('https://thoughtbot.com/blog/openai-rate-limits'),
      page('https://community.openai.com/t/how-to-get-rate-limit-reset-time-for-response-api/1268905'),
    ],
    headers: ['limit', 'remaining', 'reset'].flatMap((part) => [
      `x-ratelimit-${part}-requests`,
      `x-ratelimit-${part}-tokens`,
    ]),
    refusal: { status: [429], wait: ['x-ratelimit-reset-requests', 'x-ratelimit-reset-tokens'] },
    note: 'Some models also have limits for a day.',
  },
  {
    requests: { policy: within('{count}', '1m', full('requests')), key: 'the organisation and the model' },
    tokens: {
      policy: within('{count}', '1m', full('tokens')),
      key: 'the organisation and the model',
      unit: 'tokens: of the prompt and, as estimated, of the answer',
    },
  },
)

/** Anthropic: requests, input tokens and output tokens a minute, as the Console shows them. */
export const anthropic: CountedPreset<'requests' | 'input' | 'output'> = countedPreset(
  {
    name: 'anthropic',
    title: 'Claude API',
    sources: [
      page('https://platform.claude.com/docs/api/rate-limits'),
      page('https://support.claude.com/en/articles/8243635'),
      page('https://rdrr.io/cran/tidyllm/src/tests/testthat/claude/api.anthropic.com/v1/messages-e050b5-POST.R'),
    ],
    headers: ['requests', 'input-tokens', 'output-tokens'].flatMap((name) =>
      ['limit', 'remaining', 'reset'].map((part) => `anthropic-ratelimit-${name}-${part}`),
    ),
    refusal: { status: [429], wait: ['retry-after'], mark: 'rate_limit_error' },
    note: 'The budgets fill up all the time, and a minute may be held in shorter steps. A reached spend cap is a 429 without retry-after, which lasts until next month.',
  },
  {
    requests: { policy: bucket('{count}/m', full('requests')), key: 'the organisation and the model' },
    input: {
      policy: bucket('{count}/m', full('input-tokens')),
      key: 'the organisation and the model',
      unit: 'input tokens; for most models those read from the cache do not count',
    },
    output: {
      policy: bucket('{count}/m', full('output-tokens')),
      key: 'the organisation and the model',
      unit: 'output tokens',
    },
  },
)

/** Gemini: requests and input tokens a minute, and requests a day, as AI Studio shows them. */
export const gemini: CountedPreset<'requests' | 'tokens' | 'daily'> = countedPreset(
  {
    name: 'gemini',
    title: 'Gemini API',
    sources: [page('https://ai.google.dev/gemini-api/docs/rate-limits.md.txt')],
    headers: [],
    refusal: { status: [429], wait: [], mark: 'RESOURCE_EXHAUSTED', otherwise: '1m' },
    note: 'The day begins at midnight, Pacific time. Paid tiers may have limits on what is spent in ten minutes.',
  },
  {
    requests: { policy: within('{count}', '1m'), key: 'the project and the model' },
    tokens: { policy: within('{count}', '1m'), key: 'the project and the model', unit: 'input tokens' },
    daily: {
      policy: bucket('{count} in each day of America/Los_Angeles', { guard: '1s' }),
      key: 'the project and the model',
    },
  },
)
