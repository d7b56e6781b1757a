/* What the book measures of a network, by the definitions of alignbook.metrics: misalignment of the first layer's
 * weights with the data, the alignment curve of the last features, A_l of every layer's tangent kernel, and the
 * Hessian's eigenvalue of largest magnitude.
 */
playground.measures = function (network) {
  "use strict";
  const COINCIDENCE = 1e-9; // eigenvalues closer than this, relative to the largest, share an eigenspace
  const CONSTANT = 1e-7; // a kernel whose centred part is below this share of it is constant
  const DRAWS = 20; // Gaussian filters for the floor, and random bases

  // Linear algebra on small matrices, row by row

  /** {values (ascending), vectors (one per row)} of a symmetric (d × d) matrix, by Jacobi's rotations. */
  function eigen(matrix, d) {
    const a = Float64Array.from(matrix);
    const v = new Float64Array(d * d);
    for (let i = 0; i < d; i++) v[i * d + i] = 1;
    for (let sweep = 0; sweep < 60; sweep++) {
      let off = 0;
      let all = 0;
      for (let i = 0; i < d; i++)
        for (let j = 0; j < d; j++) {
          all += a[i * d + j] ** 2;
          if (i !== j) off += a[i * d + j] ** 2;
        }
      if (off <= 1e-32 * all) break;
      for (let p = 0; p < d; p++)
        for (let q = p + 1; q < d; q++) {
          if (!a[p * d + q]) continue;
          const [c, s] = rotation(a[p * d + p], a[q * d + q], a[p * d + q]);
          for (let i = 0; i < d; i++) turn(a, i * d + p, i * d + q, c, s);
          for (let i = 0; i < d; i++) turn(a, p * d + i, q * d + i, c, s);
          for (let i = 0; i < d; i++) turn(v, p * d + i, q * d + i, c, s);
        }
    }
    const order = [...Array(d).keys()].sort((i, j) => a[i * d + i] - a[j * d + j]);
    const vectors = new Float64Array(d * d);
    order.forEach((from, to) => vectors.set(v.subarray(from * d, from * d + d), to * d));
    return { values: order.map((i) => a[i * d + i]), vectors };
  }

  /** Cosine and sine of the turn that makes the off-diagonal entry of [[app, apq], [apq, aqq]] vanish. */
  function rotation(app, aqq, apq) {
    const theta = (aqq - app) / (2 * apq);
    const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
    const c = 1 / Math.hypot(t, 1);
    return [c, t * c];
  }

  function turn(values, at, other, c, s) {
    const [x, y] = [values[at], values[other]];
    values[at] = c * x - s * y;
    values[other] = s * x + c * y;
  }

  /** Singular values (descending) and uᵢᵀ y for each column y of (n × k) labels, by one-sided Jacobi. */
  function singular(rows, n, d, labels, k) {
    const u = Array.from({ length: d }, (_, j) => Float64Array.from({ length: n }, (_, i) => rows[i * d + j]));
    const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
    for (let sweep = 0, turned = true; turned && sweep < 60; sweep++) {
      turned = false;
      for (let p = 0; p < d; p++)
        for (let q = p + 1; q < d; q++) {
          let [pp, qq, pq] = [0, 0, 0];
          for (let i = 0; i < n; i++) {
            pp += u[p][i] * u[p][i];
            qq += u[q][i] * u[q][i];
            pq += u[p][i] * u[q][i];
          }
          if (!(Math.abs(pq) > 1e-15 * Math.sqrt(pp * qq))) continue;
          turned = true;
          const [c, s] = rotation(pp, qq, pq);
          for (let i = 0; i < n; i++) {
            const [x, y] = [u[p][i], u[q][i]];
            u[p][i] = c * x - s * y;
            u[q][i] = s * x + c * y;
          }
        }
    }
    const columns = Array.from({ length: k }, (_, c) =>
      Float64Array.from({ length: n }, (_, i) => labels[i * k + c]),
    );
    const found = u.map((column) => {
      const sigma = Math.sqrt(dot(column, column));
      return { sigma, along: columns.map((y) => (sigma ? dot(column, y) / sigma : 0)) };
    });
    return found.sort((a, b) => b.sigma - a.sigma);
  }

  /** The lower triangle L of b = L Lᵀ, or null where b is not positive definite. */
  function cholesky(b, d) {
    const l = new Float64Array(d * d);
    for (let i = 0; i < d; i++)
      for (let j = 0; j <= i; j++) {
        let sum = b[i * d + j];
        for (let k = 0; k < j; k++) sum -= l[i * d + k] * l[j * d + k];
        if (i === j && !(sum > 0)) return null;
        l[i * d + j] = i === j ? Math.sqrt(sum) : sum / l[j * d + j];
      }
    return l;
  }

  /** Covariance (d × d) of n rows, divided by n. */
  function covariance(rows, n, d) {
    const mean = new Float64Array(d);
    for (let i = 0; i < n; i++) for (let j = 0; j < d; j++) mean[j] += rows[i * d + j] / n;
    const c = new Float64Array(d * d);
    for (let i = 0; i < n; i++)
      for (let a = 0; a < d; a++)
        for (let b = 0; b < d; b++)
          c[a * d + b] += ((rows[i * d + a] - mean[a]) * (rows[i * d + b] - mean[b])) / n;
    return c;
  }

  // Filters and data (Maennel et al. 2020)

  /** Σ √(tr Bᵢ tr Cᵢ) - d over the eigenspaces of A: rows of `vectors`, a new space at each of `starts`. */
  function closedForm(vectors, starts, b, d) {
    const l = cholesky(b, d);
    if (!l) return NaN;
    let total = 0;
    let [forward, inverse] = [0, 0];
    for (let at = 0; at < d; at++) {
      const v = vectors.subarray(at * d, at * d + d);
      if (starts.includes(at)) [forward, inverse] = [0, 0];
      for (let j = 0; j < d; j++) {
        let sum = 0;
        for (let i = j; i < d; i++) sum += l[i * d + j] * v[i];
        forward += sum * sum; // vᵀBv = |Lᵀv|²
      }
      const w = new Float64Array(d);
      for (let i = 0; i < d; i++) {
        let sum = v[i];
        for (let j = 0; j < i; j++) sum -= l[i * d + j] * w[j];
        w[i] = sum / l[i * d + i];
        inverse += w[i] * w[i]; // vᵀB⁻¹v = |L⁻¹v|²
      }
      if (at === d - 1 || starts.includes(at + 1)) total += Math.sqrt(forward * inverse);
    }
    return Math.max(0, total - d);
  }

  /** M(A, B) of two covariance matrices (d × d). */
  function misalignment(a, b, d) {
    const { values, vectors } = eigen(a, d);
    const least = COINCIDENCE * Math.max(...values.map(Math.abs));
    const starts = values.map((_, i) => i).filter((i) => !i || values[i] - values[i - 1] > least);
    return closedForm(vectors, starts, b, d);
  }

  /** Rows: d random orthonormal directions (Gram and Schmidt). */
  function randomBasis(d, draw) {
    const basis = Float64Array.from({ length: d * d }, draw);
    for (let i = 0; i < d; i++) {
      const row = basis.subarray(i * d, i * d + d);
      for (let j = 0; j < i; j++) {
        const other = basis.subarray(j * d, j * d + d);
        const along = row.reduce((sum, x, k) => sum + x * other[k], 0);
        row.forEach((x, k) => (row[k] = x - along * other[k]));
      }
      const length = Math.hypot(...row);
      row.forEach((x, k) => (row[k] = x / length));
    }
    return basis;
  }

  /** What weights are held against: the widest `most` axes of the inputs, and what chance gives.
   *
   * {d, axes (d × inputs), data (d × d), bases, floor(width)}
   */
  function dataAxes(x, n, inputs, most, seed) {
    const d = Math.min(most, inputs);
    const { values, vectors } = eigen(covariance(x, n, inputs), inputs);
    const axes = vectors.slice((inputs - d) * inputs); // ascending: the last are the widest
    const data = new Float64Array(d * d);
    for (let i = 0; i < d; i++) data[i * d + i] = values[inputs - d + i];
    const draw = network.normal(seed);
    const bases = Array.from({ length: DRAWS }, () => randomBasis(d, draw));
    const floor = (width) => {
      const scores = Array.from({ length: DRAWS }, () =>
        misalignment(data, covariance(Float64Array.from({ length: width * d }, draw), width, d), d),
      );
      return scores.reduce((sum, score) => sum + score, 0) / DRAWS;
    };
    return { d, axes, data, bases, floor };
  }

  /** {data, random}: misalignment of the first layer's weights with the data's axes and with random ones. */
  function filters(net, seen) {
    const { d } = seen;
    const { inputs, outputs, weights } = network.layersOf(net.sizes, net.theta)[0];
    const along = new Float64Array(outputs * d);
    network.addTimesTransposed(along, weights, seen.axes, outputs, inputs, d);
    const b = covariance(along, outputs, d);
    const starts = [...Array(d).keys()];
    const random = seen.bases.map((basis) => closedForm(basis, starts, b, d));
    return { data: misalignment(seen.data, b, d), random: random.reduce((sum, m) => sum + m, 0) / random.length };
  }

  // Features and labels (Imani et al. 2022)

  /** One-hot labels (n × k), less the mean of each column. */
  function centred(labels, n, k) {
    const y = new Float64Array(n * k);
    for (let i = 0; i < n; i++) y[i * k + labels[i]] = 1;
    for (let c = 0; c < k; c++) {
      let mean = 0;
      for (let i = 0; i < n; i++) mean += y[i * k + c] / n;
      for (let i = 0; i < n; i++) y[i * k + c] -= mean;
    }
    return y;
  }

  /** The alignment curve of features (n × d) with a constant, rows of length one: {sigma, share}, descending.
   *
   * share[i] is the part of ‖Ỹ‖² along singular vectors with a value of at least sigma[i], Ỹ the centred labels.
   */
  function alignmentCurve(features, n, d, labels, k) {
    const rows = new Float64Array(n * (d + 1));
    for (let i = 0; i < n; i++) {
      const row = rows.subarray(i * (d + 1), (i + 1) * (d + 1));
      row.set(features.subarray(i * d, i * d + d));
      row[d] = 1;
      const length = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0));
      row.forEach((value, j) => (row[j] = value / length));
    }
    const y = centred(labels, n, k);
    const whole = y.reduce((sum, value) => sum + value * value, 0);
    const found = singular(rows, n, d + 1, y, k);
    const least = Math.max(n, d + 1) * Number.EPSILON * found[0].sigma;
    const kept = found.filter(({ sigma }) => sigma > least);
    let sum = 0;
    const share = kept.map(({ along }) => (sum += along.reduce((s, value) => s + value * value, 0)) / whole);
    return { sigma: kept.map(({ sigma }) => sigma), share };
  }

  // Tangent kernels and labels (Lou et al. 2022)

  /** A_l of each layer's weights; NaN where the kernel is constant. */
  function tangentAlignment(net, task) {
    const { n, labels } = task;
    const k = net.sizes.at(-1);
    const layers = network.layersOf(net.sizes, net.theta);
    const entering = network.forward(net, task.x, n);
    const size = n * k;
    const y = new Float64Array(size).fill(-1 / k);
    for (let i = 0; i < n; i++) y[i * k + labels[i]] += 1;
    const whole = y.reduce((sum, value) => sum + value * value, 0);
    // Gradients of the outputs with respect to what a layer puts out: rows (example, output).
    let g = new Float64Array(size * k);
    for (let at = 0; at < size; at++) g[at * k + (at % k)] = 1;
    const found = new Array(layers.length);
    for (let l = layers.length - 1; l >= 0; l--) {
      const { inputs, outputs, weights } = layers[l];
      found[l] = kernelAlignment(entering[l], inputs, g, outputs, n, k, y, whole);
      if (l) {
        const before = new Float64Array(size * inputs);
        network.addTimes(before, g, weights, size, outputs, inputs);
        for (let at = 0; at < size; at++)
          for (let j = 0, i = (at / k) | 0; j < inputs; j++)
            if (!(entering[l][i * inputs + j] > 0)) before[at * inputs + j] = 0;
        g = before;
      }
    }
    return found;
  }

  /** Of K[(i,a), (j,b)] = (hᵢ·hⱼ)(g_ia·g_jb): Ỹᵀ K Ỹ / (‖CKC‖ ‖Ỹ‖²), C the centring of all rows. */
  function kernelAlignment(h, m, g, p, n, k, y, whole) {
    const size = n * k;
    // Scales drop out; without them deep networks would underflow.
    const unit = (values) => values.reduce((top, value) => Math.max(top, Math.abs(value)), 0) || 1;
    const [scaleH, scaleG] = [unit(h), unit(g)];
    h = h.map((value) => value / scaleH);
    g = g.map((value) => value / scaleG);
    const towards = new Float64Array(p * m); // Σ ỹ_ia g_ia hᵢᵀ
    const total = new Float64Array(p * m); // Σ g_ia hᵢᵀ
    const [labelled, plain] = [new Float64Array(n * p), new Float64Array(n * p)]; // the same of one example
    for (let at = 0; at < size; at++)
      for (let r = 0, to = ((at / k) | 0) * p; r < p; r++, to++) {
        labelled[to] += y[at] * g[at * p + r];
        plain[to] += g[at * p + r];
      }
    network.addTransposedTimes(towards, labelled, h, n, p, m);
    network.addTransposedTimes(total, plain, h, n, p, m);
    const seen = new Float64Array(n * p); // total hᵢ
    network.addTimesTransposed(seen, h, total, n, m, p);
    let [mean, meansSquared] = [0, 0];
    for (let at = 0; at < size; at++) {
      let row = 0;
      for (let r = 0, to = ((at / k) | 0) * p; r < p; r++, to++) row += g[at * p + r] * seen[to];
      row /= size;
      mean += row / size;
      meansSquared += row * row;
    }
    const squared = 2 * size * meansSquared - (size * mean) ** 2; // ‖K‖² - ‖CKC‖²
    let norm = 0;
    for (let i = 0; i < n; i++) {
      const wide = (i + 1) * k; // pairs of outputs with examples up to this one
      const hh = new Float64Array(i + 1);
      const gg = new Float64Array(k * wide);
      network.addTimesTransposed(hh, h.subarray(i * m, i * m + m), h, 1, m, i + 1);
      network.addTimesTransposed(gg, g.subarray(i * k * p, (i + 1) * k * p), g, k, p, wide);
      for (let a = 0, at = 0; a < k; a++)
        for (let b = 0; b < wide; b++, at++) {
          const j = (b / k) | 0;
          norm += (i === j ? 1 : 2) * (hh[j] * gg[at]) ** 2;
        }
    }
    const left = norm - squared; // ‖CKC‖²
    if (!(left > CONSTANT ** 2 * norm)) return NaN;
    return towards.reduce((sum, value) => sum + value * value, 0) / (Math.sqrt(left) * whole);
  }

  // Curvature (Liu et al.)

  /** The Hessian's eigenvalue of largest magnitude, by Lanczos: {value, vector, residual}.
   *
   * start : where to begin, such as the eigenvector of a step before; most : products with the Hessian.
   */
  function topCurvature(net, task, { start = null, most = 60, tolerance = 1e-3, seed = 1 } = {}) {
    const { trace } = network.gradient(net, task);
    const size = net.theta.length;
    const draw = network.normal(seed);
    const dot = (a, b) => {
      let sum = 0;
      for (let i = 0; i < size; i++) sum += a[i] * b[i];
      return sum;
    };
    const add = (a, b, factor) => {
      for (let i = 0; i < size; i++) a[i] += factor * b[i];
    };
    let next = Float64Array.from({ length: size }, draw);
    if (start) {
      const spread = 0.1 / Math.sqrt(size);
      next = next.map((value, i) => start[i] + spread * value);
    }
    const basis = [];
    const [diagonal, beside] = [[], []];
    let best = null;
    let length = Math.sqrt(dot(next, next));
    for (let step = 1; step <= Math.min(most, size); step++) {
      basis.push(next.map((value) => value / length));
      next = network.hessianProduct(net, task, trace, basis.at(-1));
      diagonal.push(dot(next, basis.at(-1)));
      for (let twice = 0; twice < 2; twice++) for (const v of basis) add(next, v, -dot(next, v));
      length = Math.sqrt(dot(next, next));
      if (step % 4 === 0 || step === Math.min(most, size) || !(length > 0)) {
        best = largest(diagonal, beside);
        best.residual = length * Math.abs(best.weights.at(-1));
        if (best.residual <= tolerance * Math.abs(best.value) || !(length > 0)) break;
      }
      beside.push(length);
    }
    const vector = new Float64Array(size);
    best.weights.forEach((weight, i) => add(vector, basis[i], weight));
    return { value: best.value, vector, residual: best.residual };
  }

  /** {value, weights}: the eigenpair of largest magnitude of the tridiagonal matrix. */
  function largest(diagonal, beside) {
    const d = diagonal.length;
    const t = new Float64Array(d * d);
    diagonal.forEach((value, i) => (t[i * d + i] = value));
    for (let i = 0; i + 1 < d; i++) t[i * d + i + 1] = t[(i + 1) * d + i] = beside[i];
    const { values, vectors } = eigen(t, d);
    const at = Math.abs(values[0]) > Math.abs(values[d - 1]) ? 0 : d - 1;
    return { value: values[at], weights: vectors.slice(at * d, at * d + d) };
  }

  return { dataAxes, filters, misalignment, alignmentCurve, tangentAlignment, topCurvature, eigen, covariance };
};
