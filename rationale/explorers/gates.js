// The mathematics of the explorer of shapes: HardKuma(a, b, left, right), eqs. (K1)-(K4) and (H1)-(H10) of the
// 02_kumaraswamy and 03_hardkuma, in the forms of rationale/distributions. A test compares the two.

export function log1mexp(x) {
  // ln(1 - e^x) for x < 0
  return x > -Math.LN2 ? Math.log(-Math.expm1(x)) : Math.log1p(-Math.exp(x));
}

export function softplus(x) {
  return x > 30 ? x : Math.log1p(Math.exp(x));
}

export function inverseSoftplus(y) {
  return y > 30 ? y : Math.log(Math.expm1(y));
}

export function logGamma(x) {
  // x > 0: Stirling's series, after x has been moved above 10
  let shift = 0;
  for (; x < 10; x += 1) shift += Math.log(x);
  const w = 1 / (x * x);
  const series =
    (1 / 12 + w * (-1 / 360 + w * (1 / 1260 + w * (-1 / 1680 + w * (1 / 1188 - (w * 691) / 360360))))) / x;
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - shift;
}

export function logDensity(logK, a, b) {
  // (K1)
  return Math.log(a) + Math.log(b) + (a - 1) * logK + (b - 1) * log1mexp(a * logK);
}

export function logQuantile(logS, a, b) {
  // (K3): ln k where ln P(K > k) = logS
  return log1mexp(logS / b) / a;
}

export function moment(n, a, b) {
  // (K4)
  return Math.exp(logGamma(1 + n / a) + logGamma(1 + b) - logGamma(1 + n / a + b));
}

export function masses({ a, b, left, right }) {
  // (H3), (H4)
  const w0 = left < 0 ? log1mexp(-a * Math.log1p(right / -left)) : 0; // ln(1 - k0^a)
  const w1 = right > 1 ? log1mexp(-a * Math.log1p((right - 1) / (1 - left))) : -Infinity;
  const [logNonzero, logOne] = [b * w0, b * w1];
  return {
    zero: -Math.expm1(logNonzero),
    one: Math.exp(logOne),
    inside: -Math.exp(logNonzero) * Math.expm1(logOne - logNonzero),
    logNonzero,
    logOne,
  };
}

export function decision(m, mean) {
  // (H9)
  return m.inside > Math.max(m.zero, m.one) ? mean : m.zero > m.one ? 0 : 1;
}

// Nodes ln v, ln(1 - v) and weights of an integral over v in (0, 1), with v = sigmoid(pi sinh t).
const NODES = [];
for (let t = -4; t <= 4.0001; t += 0.05) {
  const w = Math.PI * Math.sinh(t);
  const [low, high] = [-softplus(-w), -softplus(w)];
  NODES.push([low, high, 0.05 * Math.PI * Math.cosh(t) * Math.exp(low + high)]);
}

export function describe(gate) {
  // the numbers below the picture, those of describe_shape in Python
  const { a, b, left, right } = gate,
    m = masses(gate),
    width = right - left;
  let mean = 0,
    logs = 0;
  for (const [logV, logRest, weight] of NODES) {
    // (H8), (H10): over the quantiles of the interior
    const below = m.zero + m.inside * Math.exp(logV);
    const above = m.one + m.inside * Math.exp(logRest);
    const logS = below < 0.5 ? Math.log1p(-below) : Math.log(above);
    const logK = logQuantile(logS, a, b);
    mean += weight * Math.min(1, Math.max(0, left + width * Math.exp(logK)));
    // ln(1 - k^a) = logS / b, which stays finite where k rounds to 1
    logs += weight * (Math.log(a * b) + (a - 1) * logK + ((b - 1) * logS) / b - Math.log(width));
  }
  const part = p => (p > 0 ? p * Math.log(p) : 0);
  const meanK = moment(1, a, b);
  return {
    "P(0)": m.zero,
    "P(1)": m.one,
    "P(0<H<1)": m.inside,
    "E[H]": m.one + m.inside * mean,
    "E[K]": meanK,
    entropy: -(part(m.zero) + part(m.one) + (m.inside > 0 ? m.inside * logs : 0)),
    decision: decision(m, meanK),
  };
}

export function travel(u, { a, b, left, right }) {
  // (H1), (H2), (H6): one draw and its derivatives
  const c = Math.log1p(-u) / b,
    k = Math.exp(log1mexp(c) / a),
    t = left + (right - left) * k;
  const moves = t > 0 && t < 1 ? right - left : 0;
  const byA = (-k * Math.log(k)) / a,
    byB = (k / (a * b)) * ((Math.exp(c) * c) / -Math.expm1(c));
  return { k, t, h: Math.min(1, Math.max(0, t)), byA: moves && moves * byA, byB: moves && moves * byB };
}

export function density(t, { a, b, left, right }) {
  // f_T of (H1)
  return Math.exp(logDensity(Math.log((t - left) / (right - left)), a, b)) / (right - left);
}

export function cdf(h, gate) {
  // below (H5)
  const { a, b, left, right } = gate;
  return h >= 1 ? 1 : -Math.expm1(b * log1mexp(a * Math.log((h - left) / (right - left))));
}

export function twin(a, b) {
  // (X3): the parameters of the Beta with the same mean and variance
  const mean = moment(1, a, b),
    n = (mean - moment(2, a, b)) / (moment(2, a, b) - mean * mean);
  return [mean * n, (1 - mean) * n];
}
