/* A fully connected ReLU network with softmax outputs: weights, gradient and Hessian-vector product.
 *
 * A network is {sizes, theta}: the layers' widths from the inputs to the classes, and one Float64Array of all
 * parameters, layer by layer the weights (outputs × inputs, row by row) and then the biases, as in PyTorch.
 * A task is {x, labels, n}: n rows of inputs in one Float64Array, and a class for each.
 *
 * The module is a function, so that a worker can be made of its text: see engine.js.
 */
var playground = window.playground || {};
playground.network = function () {
  "use strict";

  /** Numbers from 0 to 1 from a seed (mulberry32). */
  function uniform(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** Standard normal numbers from a seed (Box and Muller). */
  function normal(seed) {
    const draw = uniform(seed);
    return () => Math.sqrt(-2 * Math.log(1 - draw())) * Math.cos(2 * Math.PI * draw());
  }

  /** Views on the parameters of each layer: {inputs, outputs, weights, biases}. */
  function layersOf(sizes, theta) {
    let start = 0;
    return sizes.slice(1).map((outputs, l) => {
      const inputs = sizes[l];
      const weights = theta.subarray(start, (start += outputs * inputs));
      const biases = theta.subarray(start, (start += outputs));
      return { inputs, outputs, weights, biases };
    });
  }

  function fill(layer, scale, draw) {
    const spread = scale * Math.sqrt(2 / layer.inputs);
    layer.weights.forEach((_, i) => (layer.weights[i] = spread * draw()));
    layer.biases.fill(0);
  }

  /** A network whose weights are drawn at `scale` times He's initialisation; biases are 0. */
  function create(sizes, scale, seed) {
    const count = sizes.slice(1).reduce((sum, outputs, l) => sum + outputs * (sizes[l] + 1), 0);
    const net = { sizes, theta: new Float64Array(count) };
    const draw = normal(seed);
    layersOf(sizes, net.theta).forEach((layer) => fill(layer, scale, draw));
    return net;
  }

  /** A copy of the network with a new last layer. */
  function withNewHead(net, scale, seed) {
    const copy = { sizes: net.sizes, theta: net.theta.slice() };
    fill(layersOf(copy.sizes, copy.theta).at(-1), scale, normal(seed));
    return copy;
  }

  /** The same function with larger weights in the first layer and smaller ones in the second. */
  function rescaled(net, factor) {
    const copy = { sizes: net.sizes, theta: net.theta.slice() };
    const [first, second] = layersOf(copy.sizes, copy.theta);
    first.weights.forEach((w, i) => (first.weights[i] = w * factor));
    first.biases.forEach((b, i) => (first.biases[i] = b * factor));
    second.weights.forEach((w, i) => (second.weights[i] = w / factor));
    return copy;
  }

  // Products of matrices, row by row. What they add to may hold something already.

  /** c (n × p) += a (n × m) bᵀ, b (p × m). Four columns at once: what is read of a is used four times. */
  function addTimesTransposed(c, a, b, n, m, p) {
    for (let i = 0; i < n; i++) {
      const row = i * m;
      let j = 0;
      for (; j + 3 < p; j += 4) {
        let [s0, s1, s2, s3] = [0, 0, 0, 0];
        const [b0, b1, b2, b3] = [j * m, (j + 1) * m, (j + 2) * m, (j + 3) * m];
        for (let k = 0; k < m; k++) {
          const value = a[row + k];
          s0 += value * b[b0 + k];
          s1 += value * b[b1 + k];
          s2 += value * b[b2 + k];
          s3 += value * b[b3 + k];
        }
        const at = i * p + j;
        c[at] += s0;
        c[at + 1] += s1;
        c[at + 2] += s2;
        c[at + 3] += s3;
      }
      for (; j < p; j++) {
        let sum = 0;
        for (let k = 0, v = j * m; k < m; k++) sum += a[row + k] * b[v++];
        c[i * p + j] += sum;
      }
    }
  }

  /** c (n × m) += a (n × p) b (p × m). */
  function addTimes(c, a, b, n, p, m) {
    for (let i = 0; i < n; i++) for (let j = 0; j < p; j++) addRow(c, i * m, b, j * m, a[i * p + j], m);
  }

  /** c (p × m) += aᵀ b, a (n × p), b (n × m). */
  function addTransposedTimes(c, a, b, n, p, m) {
    for (let i = 0; i < n; i++) for (let j = 0; j < p; j++) addRow(c, j * m, b, i * m, a[i * p + j], m);
  }

  function addRow(c, to, b, from, factor, m) {
    if (factor) for (let k = 0; k < m; k++) c[to + k] += factor * b[from + k];
  }

  /** What enters each layer, the (n × k) outputs last. */
  function forward(net, x, n) {
    const layers = layersOf(net.sizes, net.theta);
    const entering = [x];
    layers.forEach((layer, l) => {
      const z = new Float64Array(n * layer.outputs);
      for (let i = 0; i < n; i++) z.set(layer.biases, i * layer.outputs);
      addTimesTransposed(z, entering[l], layer.weights, n, layer.inputs, layer.outputs);
      if (l < layers.length - 1) for (let i = 0; i < z.length; i++) if (z[i] < 0) z[i] = 0;
      entering.push(z);
    });
    return entering;
  }

  /** Softmax of each row of the outputs. */
  function shares(outputs, n, k) {
    const p = new Float64Array(n * k);
    for (let i = 0; i < n; i++) {
      const row = outputs.subarray(i * k, i * k + k);
      const top = Math.max(...row);
      let sum = 0;
      for (let c = 0; c < k; c++) sum += p[i * k + c] = Math.exp(row[c] - top);
      for (let c = 0; c < k; c++) p[i * k + c] /= sum;
    }
    return p;
  }

  /** {loss, accuracy, gradient, trace}: mean cross-entropy; `trace` is what a Hessian product goes on from. */
  function gradient(net, task) {
    const { n, labels } = task;
    const layers = layersOf(net.sizes, net.theta);
    const entering = forward(net, task.x, n);
    const outputs = entering.at(-1);
    const k = net.sizes.at(-1);
    const p = shares(outputs, n, k);
    let loss = 0;
    let right = 0;
    for (let i = 0; i < n; i++) {
      const row = outputs.subarray(i * k, i * k + k);
      const top = Math.max(...row);
      loss += (top - row[labels[i]] + Math.log(row.reduce((sum, z) => sum + Math.exp(z - top), 0))) / n;
      right += row.indexOf(top) === labels[i];
    }
    const grad = new Float64Array(net.theta.length);
    const gradients = layersOf(net.sizes, grad);
    const errors = new Array(layers.length); // the loss's gradients with respect to what layers put out
    errors[layers.length - 1] = p.map((share, at) => (share - (labels[(at / k) | 0] === at % k)) / n);
    for (let l = layers.length - 1; l >= 0; l--) {
      const { inputs, outputs: width, weights } = layers[l];
      addTransposedTimes(gradients[l].weights, errors[l], entering[l], n, width, inputs);
      sumRows(gradients[l].biases, errors[l], n);
      if (l) {
        errors[l - 1] = new Float64Array(n * inputs);
        addTimes(errors[l - 1], errors[l], weights, n, width, inputs);
        mask(errors[l - 1], entering[l]);
      }
    }
    return { loss, accuracy: right / n, gradient: grad, trace: { entering, errors, p } };
  }

  function sumRows(sums, rows, n) {
    const m = sums.length;
    for (let i = 0; i < n; i++) for (let j = 0; j < m; j++) sums[j] += rows[i * m + j];
  }

  /** Where a ReLU has put out 0, nothing passes. */
  function mask(values, activations) {
    for (let i = 0; i < values.length; i++) if (!(activations[i] > 0)) values[i] = 0;
  }

  /** H v for the loss's Hessian at the network (Pearlmutter's operator R on forward and backward pass). */
  function hessianProduct(net, task, trace, v) {
    const { n } = task;
    const { entering, errors, p } = trace;
    const layers = layersOf(net.sizes, net.theta);
    const moves = layersOf(net.sizes, v);
    const last = layers.length - 1;
    const k = net.sizes.at(-1);
    const moved = [null]; // R of what enters a layer
    layers.forEach((layer, l) => {
      const r = new Float64Array(n * layer.outputs);
      for (let i = 0; i < n; i++) r.set(moves[l].biases, i * layer.outputs);
      addTimesTransposed(r, entering[l], moves[l].weights, n, layer.inputs, layer.outputs);
      if (l) addTimesTransposed(r, moved[l], layer.weights, n, layer.inputs, layer.outputs);
      if (l < last) mask(r, entering[l + 1]);
      moved.push(r);
    });
    let r = new Float64Array(n * k); // R of the errors
    for (let i = 0; i < n; i++) {
      let mean = 0;
      for (let c = i * k; c < i * k + k; c++) mean += p[c] * moved[last + 1][c];
      for (let c = i * k; c < i * k + k; c++) r[c] = (p[c] * (moved[last + 1][c] - mean)) / n;
    }
    const product = new Float64Array(v.length);
    const parts = layersOf(net.sizes, product);
    for (let l = last; l >= 0; l--) {
      const { inputs, outputs: width, weights } = layers[l];
      addTransposedTimes(parts[l].weights, r, entering[l], n, width, inputs);
      sumRows(parts[l].biases, r, n);
      if (l) {
        addTransposedTimes(parts[l].weights, errors[l], moved[l], n, width, inputs);
        const before = new Float64Array(n * inputs);
        addTimes(before, r, weights, n, width, inputs);
        addTimes(before, errors[l], moves[l].weights, n, width, inputs);
        mask(before, entering[l]);
        r = before;
      }
    }
    return product;
  }

  /** One step of gradient descent on all examples; {loss, accuracy} before it. */
  function descend(net, task, rate) {
    const { loss, accuracy, gradient: slope } = gradient(net, task);
    for (let i = 0; i < slope.length; i++) net.theta[i] -= rate * slope[i];
    return { loss, accuracy };
  }

  return {
    uniform, normal, layersOf, create, withNewHead, rescaled, forward, gradient, hessianProduct, descend,
    addTimes, addTimesTransposed, addTransposedTimes,
  };
};
